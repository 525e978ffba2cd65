"""What tests of remote workers share: a server with its database, keys, workers of either kind."""

from __future__ import annotations

import dataclasses
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

import posthouse
from posthouse.client.client import Client
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from support import conformance_jobs
from support.server import RunningServer
from support.waiting import WAIT_SECONDS, eventually

SOURCE = Path(posthouse.__file__).parents[1]
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
"""The database URL of processes that must not have a database: every connection fails."""
QUICK = {
    "heartbeat_seconds": 0.2,
    "lease_seconds": 20.0,
    "cancel_grace_seconds": 0.5,
    "rescue_grace_seconds": 0.0,
    "remote_grace_seconds": 0.0,
    "drain_seconds": 5.0,
    "poll_seconds": 0.2,
}


class RemoteServer(RunningServer):
    """A server, its database, and its workers."""

    def __init__(self, settings, port=0):
        super().__init__(settings, port=port)
        self.db = psycopg.connect(self.database, autocommit=True)
        self.enqueuer = Client(settings=settings)

    @classmethod
    def over(cls, database, folder, port=0, **more):
        settings = Settings(database_url=database, data_dir=Path(folder) / "data", **{**QUICK, **more})
        return cls(settings, port)

    async def __aexit__(self, *error):
        await super().__aexit__(*error)
        self.db.close()
        await self.enqueuer.close()

    async def key(self, role="worker", tenant=None, **options):
        if role == "worker":
            options.setdefault("may_announce", tenant is None)
        return await super().key(role, tenant, **options)

    def http(self, key):
        return self.client(key, "/api/v1/worker/")

    async def remote_settings(self, **more):
        given = {"remote_url": self.url, "database_url": NOWHERE, **more}
        given.setdefault("remote_key", await self.key())
        return dataclasses.replace(self.settings, **given)

    async def app(self, way, *, processes=False, **more):
        """The conformance jobs for a worker of this kind; those in processes only if they are wanted."""
        settings = dataclasses.replace(self.settings, **more) if way == "direct" else (
            await self.remote_settings(**more)
        )  # fmt: skip
        app = posthouse.App(settings=settings)
        app.definitions.update(
            (kind, item)
            for kind, item in conformance_jobs.app.definitions.items()
            if processes or item.runner != "process"
        )
        return app

    @asynccontextmanager
    async def working(self, way="remote", *, keeper=True, queues=(), processes=False, **more):
        app = await self.app(way, processes=processes, **more)
        worker = await app.worker(queues=queues)
        await worker.start()
        maintenance = Keeper(self.database, self.settings)
        if keeper:
            await maintenance.start()
        try:
            yield worker
        finally:
            await worker.stop()
            await maintenance.stop()
            await app.close()

    async def enqueue(self, kind, payload=None, **options):
        return (await self.enqueuer.enqueue(kind, payload or {}, **options)).id

    def row(self, job_id):
        with self.db.cursor(row_factory=dict_row) as cursor:
            return cursor.execute("select * from posthouse.jobs where id = %s", (job_id,)).fetchone()

    def attempts(self, job_id):
        with self.db.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(
                "select * from posthouse.attempts where job_id = %s order by started_at, finished_at",
                (job_id,),
            ).fetchall()

    async def ended(self, job_id, seconds=WAIT_SECONDS):
        def look():
            row = self.row(job_id)
            return row if row["status"] not in {"queued", "running"} else None

        return await eventually(look, seconds, f"the end of {self.row(job_id)}")

    async def run(self, kind, payload=None, **options):
        """The row of a job of this kind, when it has ended."""
        return await self.ended(await self.enqueue(kind, payload, **options))
