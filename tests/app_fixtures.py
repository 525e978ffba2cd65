"""What the tests of all applications share: the product, running, with one application on it.

An application's own conftest says which: a fixture ``app_path`` that returns ``module:name``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

import stable
from databases import Databases
from posthouse import App, testing
from posthouse.cli.apps import load_app
from posthouse.cli.run_server import ServerProcess
from posthouse.identity import Role, issue_key
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from posthouse.worker.handlers import AUTO
from waiting import WAIT_SECONDS

LIMITS = httpx.Limits(keepalive_expiry=2.0)
"""The server closes idle connections after 5 s. A client that does so as well may use one at that moment."""


class Product:
    """An application on a database of its own, its API, and workers that can be killed."""

    def __init__(self, app, path, settings, folder):
        self.app = app
        self.path = path
        self.settings = settings
        self.url = ""
        self.folder = folder
        self.keeper = Keeper(settings.database_url, settings)
        self._serving = None
        self._port = 0
        self._clients = []
        self._workers = []

    async def start(self):
        await self.keeper.start()
        await self._serve()

    async def _serve(self):
        listening = socket.create_server(("127.0.0.1", self._port))
        self._port = listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._serving = ServerProcess(self.settings, {self.path: self.app})
        await self._serving.start(listening)

    async def stop_server(self):
        await self._serving.stop()

    async def start_server(self):
        """The API comes back at the same address."""
        await self._serve()

    async def keep(self):
        """A round of the keeper, now: the lost are found, what they had is given back, what is due starts."""
        await self.keeper.watch.run_once()
        await self.keeper.rescuer.run_once()
        await self.keeper.promoter.run_once()

    async def key(self, role, tenant=None):
        async with await psycopg.AsyncConnection.connect(self.settings.database_url, autocommit=True) as db:
            return await issue_key(
                db, f"a {role}", Role(role), tenant=tenant, may_announce=role == "worker", actor="test"
            )

    async def as_(self, role, tenant=None):
        """An HTTP client with a key of this role."""
        headers = {"Authorization": f"Bearer {await self.key(role, tenant)}"}
        client = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, limits=LIMITS)
        self._clients.append(client)
        return client

    async def worker(self, *options, remote=False, **env):
        """A worker in a process of its own; ``remote``: over HTTP, without a database."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        if remote:
            named = {"POSTHOUSE_REMOTE_URL": self.url, "POSTHOUSE_REMOTE_KEY": await self.key("worker")}
        else:
            named = {"POSTHOUSE_DATABASE_URL": self.settings.database_url}
        beats = {"POSTHOUSE_HEARTBEAT_SECONDS": "0.2", "POSTHOUSE_LEASE_SECONDS": "2"}
        log = self.folder / f"worker-{len(self._workers) + 1}.log"
        with log.open("wb") as out:
            process = stable.start(
                ["-m", "posthouse", "worker", "--app", self.path, *options],
                env={**kept, **named, **beats, **env},
                stdout=out,
                stderr=out,
                session=True,  # so that all of it can be killed
            )
        self._workers.append(process)
        return process

    def kill(self, process):
        """Send SIGKILL to a worker and all processes that it started."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def rows(self, statement, *parameters):
        with psycopg.connect(self.settings.database_url, autocommit=True, row_factory=dict_row) as db:
            return db.execute(statement, parameters).fetchall()

    def statuses(self):
        """(kind, status) of all jobs, counted."""
        rows = self.rows("select kind, status from posthouse.jobs")
        return Counter((row["kind"], row["status"]) for row in rows)

    async def until(self, condition, what="the condition", seconds=WAIT_SECONDS):
        """The first true value of the condition."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"{what} did not come true; {self.statuses()}; {self.logs()}"
            await asyncio.sleep(0.05)
        return value

    async def until_running(self, kind):
        await self.until(lambda: self.statuses()[kind, "running"], f"{kind} running")

    async def until_ended(self, seconds=WAIT_SECONDS):
        """Returns when no job is queued or running."""
        active = ("queued", "running")
        await self.until(
            lambda: not any(status in active for _, status in self.statuses()), "the end", seconds
        )

    def logs(self):
        logs = sorted(self.folder.glob("worker-*.log"))
        return "\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

    async def close(self):
        await asyncio.gather(*(client.aclose() for client in self._clients))
        for process in self._workers:
            if process.poll() is None:
                self.kill(process)
        await self._serving.stop()
        await self.keeper.stop()


@pytest.fixture(scope="session")
def databases_of(server):
    """Databases in which the tables of an application are already, by its path."""
    made = {}

    def databases(path):
        if path not in made:
            made[path] = Databases(server, partial(_make_tables, path))
        return made[path]

    yield databases
    for one in made.values():
        one.close()


def _make_tables(path, url):
    App(schema=load_app(path).schema, settings=Settings(database_url=url)).migrate()


@pytest.fixture
def handlers_in_threads(app_path, monkeypatch):
    """Let workers of this process run all handlers in it: a job process takes seconds to import the libraries
    of an application. Workers in processes of their own still have job processes.
    """
    app = load_app(app_path)
    for kind, definition in app.definitions.items():
        monkeypatch.setitem(app.definitions, kind, replace(definition, runner=AUTO))


@pytest.fixture
def remote_grace_seconds():
    """None: tests move the clock, which the heartbeats of the server do not follow."""
    return 0.0


@pytest.fixture
async def product(app_path, databases_of, settings, remote_grace_seconds, tmp_path):
    """The application's tables, its routes and a keeper; a test starts workers, or runs jobs inline."""
    app = load_app(app_path)
    with databases_of(app_path).one() as url:
        chosen = replace(settings, database_url=url, remote_grace_seconds=remote_grace_seconds)
        async with _running(app, app_path, chosen, tmp_path) as product:
            yield product


@asynccontextmanager
async def _running(app, app_path, settings, tmp_path):
    async with testing.using(app, settings):
        app.migrate()
        product = Product(app, app_path, settings, tmp_path)
        await product.start()
        try:
            yield product
        finally:
            await product.close()
