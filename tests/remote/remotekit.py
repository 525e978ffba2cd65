"""What tests of remote workers share: a server with its database, keys, workers of either kind."""

from __future__ import annotations

import dataclasses
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import chorebook
import httpx
import psycopg
from psycopg.rows import dict_row

import posthouse
from posthouse.cli.run_server import ServerProcess
from posthouse.client.client import Client
from posthouse.identity import Role, issue_key
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from workshop import eventually

SOURCE = Path(posthouse.__file__).parents[1]
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
"""The database URL of processes that must not have a database: every connection fails."""
QUICK = {
    "heartbeat_seconds": 0.2,
    "lease_seconds": 2.0,
    "cancel_grace_seconds": 0.5,
    "rescue_grace_seconds": 0.0,
    "remote_grace_seconds": 0.0,
    "drain_seconds": 5.0,
    "poll_seconds": 0.2,
}


class Site:
    """A server, its database, and its workers."""

    def __init__(self, url, settings):
        self.url = url
        self.settings = settings
        self.database = settings.database_url
        self.db = psycopg.connect(self.database, autocommit=True)
        self.client = Client(settings=settings)
        self._open = []

    @classmethod
    @asynccontextmanager
    async def over(cls, database, folder, port=0, **more):
        settings = Settings(database_url=database, data_dir=Path(folder) / "data", **{**QUICK, **more})
        async with serving(settings, port) as url:
            site = cls(url, settings)
            try:
                yield site
            finally:
                site.db.close()
                await site.client.close()
                for http in site._open:
                    await http.aclose()

    async def key(self, role="worker", **options):
        if role == "worker":
            options.setdefault("may_announce", options.get("tenant") is None)
        async with await psycopg.AsyncConnection.connect(self.database, autocommit=True) as connection:
            return await issue_key(connection, f"a {role}", Role(role), actor="test", **options)

    def http(self, key):
        http = httpx.AsyncClient(
            base_url=f"{self.url}/api/v1/worker/", headers={"Authorization": f"Bearer {key}"}, timeout=30
        )
        self._open.append(http)
        return http

    async def remote_settings(self, **more):
        given = {"remote_url": self.url, "database_url": NOWHERE, **more}
        given.setdefault("remote_key", await self.key())
        return dataclasses.replace(self.settings, **given)

    async def app(self, way, *, processes=False, **more):
        """The handlers of chorebook for a worker of this kind; those in processes only if they are wanted."""
        settings = dataclasses.replace(self.settings, **more) if way == "direct" else (
            await self.remote_settings(**more)
        )  # fmt: skip
        app = posthouse.App(settings=settings)
        app.definitions.update(
            (kind, item)
            for kind, item in chorebook.app.definitions.items()
            if processes or item.runner != "process"
        )
        return app

    @asynccontextmanager
    async def working(self, way="remote", *, keeper=True, queues=(), processes=False, **more):
        app = await self.app(way, processes=processes, **more)
        worker = await app.worker(queues=queues)
        await worker.start()
        housekeeping = Keeper(self.database, self.settings)
        if keeper:
            await housekeeping.start()
        try:
            yield worker
        finally:
            await worker.stop()
            await housekeeping.stop()
            await app.close()

    async def enqueue(self, kind, payload=None, **options):
        return (await self.client.enqueue(kind, payload or {}, **options)).id

    def row(self, job_id):
        with self.db.cursor(row_factory=dict_row) as cursor:
            return cursor.execute("select * from posthouse.jobs where id = %s", (job_id,)).fetchone()

    def attempts(self, job_id):
        with self.db.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(
                "select * from posthouse.attempts where job_id = %s order by started_at, finished_at",
                (job_id,),
            ).fetchall()

    async def ended(self, job_id, seconds=20):
        def look():
            row = self.row(job_id)
            return row if row["status"] not in {"queued", "running"} else None

        return await eventually(look, seconds, f"the end of {self.row(job_id)}")

    async def run(self, kind, payload=None, **options):
        """The row of a job of this kind, when it has ended."""
        return await self.ended(await self.enqueue(kind, payload, **options))


@asynccontextmanager
async def serving(settings, port=0):
    with socket.create_server(("127.0.0.1", port)) as listening:
        server = ServerProcess(settings)
        await server.start(listening)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            await server.stop()
