"""A restart of the server: no connection of a remote worker leads to the old one, and no job is lost."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from uuid import uuid4

from posthouse.cli.run_server import ServerProcess
from posthouse.server.live import Subscriptions
from posthouse.settings import Settings
from posthouse.storage.leases import ClaimOptions
from posthouse.worker.remote.backend import PENDING_CLAIM_SECONDS, HttpLeaseStore
from posthouse.worker.remote.client import HttpConnection
from support.remote import RemoteServer

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


async def test_a_connection_that_comes_while_the_server_stops_is_closed(database, monkeypatch):
    """It was accepted, and uvicorn does not know it yet: a client on it would wait until its timeout."""
    close = Subscriptions.close
    with socket.socket() as late, socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()

        async def close_while_one_comes(streams):
            monkeypatch.setattr(
                Subscriptions, "close", close
            )  # it is called once more when the app shuts down
            await close(streams)
            late.connect(address)
            for _ in range(2):  # turns of the loop: one sees that a connection is there, one accepts it
                await asyncio.sleep(0)

        monkeypatch.setattr(Subscriptions, "close", close_while_one_comes)
        serving = ServerProcess(Settings(database_url=database))
        await serving.start(listening)
        await serving.stop()
        assert await asyncio.wait_for(asyncio.to_thread(_is_closed, late), 30)


def _is_closed(link):
    link.settimeout(20)
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


class Gateway:
    """Relays connections to a server. After ``strand`` those that are open bring only errors."""

    def __init__(self, url):
        self._target = urlsplit(url).hostname, urlsplit(url).port
        self._stranded = set()
        self._open = set()
        self.refused = 0

    @classmethod
    @asynccontextmanager
    async def before(cls, url):
        gateway = cls(url)
        server = await asyncio.start_server(gateway._serve, "127.0.0.1", 0)
        gateway.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield gateway
        finally:
            server.close()
            for task in gateway._open:
                task.cancel()
            await asyncio.gather(*gateway._open, return_exceptions=True)

    def strand(self):
        self._stranded |= self._open

    async def _serve(self, reader, writer):
        this = asyncio.current_task()
        self._open.add(this)
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            answers = asyncio.create_task(self._copy(server_reader, writer))
            try:
                while request := await self._request(reader):
                    if this in self._stranded:
                        self.refused += 1
                        writer.write(UNAVAILABLE)
                    else:
                        server_writer.write(request)
            finally:
                answers.cancel()
                server_writer.close()
                writer.close()
        finally:
            self._open.discard(this)

    async def _request(self, reader):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""
        length = LENGTH.search(head)
        return head + await reader.readexactly(int(length[1]) if length else 0)

    async def _copy(self, reader, writer):
        while chunk := await reader.read(65536):
            writer.write(chunk)


async def test_a_worker_replaces_a_connection_that_only_returns_errors(remote_server: RemoteServer):
    async with Gateway.before(remote_server.url) as gateway, remote_server.working(remote_url=gateway.url):
        await remote_server.run("add", {"a": 1, "b": 1})
        for _ in range(2):
            gateway.strand()
            assert (await remote_server.run("add", {"a": 2, "b": 1}))["result"] == 3
        assert gateway.refused


async def test_the_requests_of_a_worker_are_not_logged(remote_server: RemoteServer, caplog):
    caplog.set_level(logging.INFO)
    async with remote_server.working():
        await remote_server.run("add", {"a": 1, "b": 1})
    assert not [record for record in caplog.records if record.name == "httpx"]


async def test_all_that_was_claimed_by_lost_replies_is_recovered_at_once(remote_server: RemoteServer):
    """Also if there are more jobs than free slots: a job that waits elsewhere would lose its lease."""
    key, worker_id = await remote_server.key(), uuid4()
    http = remote_server.http(key)
    about = {"worker_id": str(worker_id), "name": "w", "queues": ["default"], "kinds": ["add"]}
    (await http.post("register", json=about)).raise_for_status()
    ids, tokens = {await remote_server.enqueue("add", {"a": n, "b": 1}) for n in range(2)}, [uuid4(), uuid4()]
    for token in tokens:
        wanted = {"queues": ["default"], "kinds": ["add"], "limit": 1, "token": str(token)}
        (await http.post("jobs/claim", json={"worker_id": str(worker_id), **wanted})).raise_for_status()
    connection = HttpConnection(await remote_server.remote_settings(remote_key=key))
    leases = HttpLeaseStore(connection, worker_id, 30.0)
    now = asyncio.get_running_loop().time()
    leases._pending_tokens = {str(token): now + PENDING_CLAIM_SECONDS for token in tokens}
    claim = await leases.claim(ClaimOptions(["default"], ["add"], 1, {}))
    assert (claim.size, {each.token for each in claim.recovered}) == (2, set(tokens))
    again = await leases.claim(ClaimOptions(["default"], ["add"], 1, {}))
    assert again.size == 0
    assert {row["id"] for job_id in ids if (row := remote_server.row(job_id))["status"] == "running"} == ids
    await connection.close()
