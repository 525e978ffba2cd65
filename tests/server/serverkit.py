"""A server in a thread of its own, for tests that are not async or share one."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager

import psycopg

from posthouse.cli.run_server import ServerProcess
from posthouse.identity import Role, issue_key


@contextmanager
def served(settings):
    """The address of a server that runs until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = ServerProcess(settings)
        run(server.start(listening))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            run(server.stop())
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()


async def key_for(database, role, tenant=None):
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        return await issue_key(connection, f"a {role}", Role(role), tenant=tenant, actor="test")
