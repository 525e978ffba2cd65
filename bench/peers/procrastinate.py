"""Procrastinate: one worker with many concurrent async jobs."""

# This script runs in the peers' environment; the repository's own has no such package.
# mypy: disable-error-code="import-not-found, import-untyped"

from typing import Any

from procrastinate import App, PsycopgConnector

from .protocol import GUARANTEES, Payload, Tally, chunks, keys, main

# Every job is claimed and finished by statements of its own, so more than 30 concurrent jobs or 20
# connections change nothing; with 10 connections it is a tenth slower.
CONCURRENCY = 100
POOL_SIZE = 20
BULK_SIZE = 1000


class ProcrastinatePeer:
    package = "procrastinate"
    settings: dict[str, Any] = {  # noqa: RUF012  the protocol asks for an instance attribute
        "driver": "psycopg, uvloop",
        "concurrency": CONCURRENCY,
        "pool_size": POOL_SIZE,
        "bulk_size": BULK_SIZE,
    }

    async def open(self, url: str) -> None:
        connector = PsycopgConnector(conninfo=url, min_size=1, max_size=POOL_SIZE)
        self._app = App(connector=connector)
        self._tally = Tally(timed=False)
        self._task = self._app.task(name="noop")(self._noop)
        await self._app.open_async()

    async def setup(self) -> None:
        await self._app.schema_manager.apply_schema_async()

    async def enqueue_one(self, payload: Payload) -> None:
        await self._task.defer_async(**payload)

    async def enqueue_bulk(self, payloads: list[Payload]) -> None:
        if GUARANTEES:
            await self._enqueue_locked(payloads)
            return
        for chunk in chunks(payloads, BULK_SIZE):
            await self._task.batch_defer_async(*chunk)

    async def _enqueue_locked(self, payloads: list[Payload]) -> None:
        """The library's bulk call takes one lock for all its jobs; the call below it takes any jobs."""
        jobs = [
            self._task.configure(lock=lock).make_new_job(**item)
            for lock, item in zip(keys(len(payloads)), payloads, strict=True)
        ]
        for chunk in chunks(jobs, BULK_SIZE):
            await self._app.job_manager.batch_defer_jobs_async(jobs=chunk)

    async def work(self, tally: Tally) -> None:
        self._tally = tally
        await self._app.run_worker_async(concurrency=CONCURRENCY)

    async def _noop(self, sent: float, pad: str) -> None:
        del pad
        if self._tally.timed:
            self._tally.started_late(sent)
        else:
            self._tally.started()


if __name__ == "__main__":
    main(ProcrastinatePeer())
