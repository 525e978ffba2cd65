"""PgQueuer: one process with several queue managers, each on its own asyncpg connection."""

# This script runs in the peers' environment; the repository's own has no such package.
# mypy: disable-error-code="import-not-found, import-untyped"

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from .protocol import GUARANTEES, LIMIT, Payload, Tally, chunks, main

# With two, one manager runs its batch while the other waits for its claim: 8,900 jobs/s in one
# process against 7,600 with one manager, and within the noise in two processes. Four were slower.
MANAGERS = 2
BATCH_SIZE = 500
BULK_SIZE = 5000


class PgQueuerPeer:
    package = "pgqueuer"
    settings: dict[str, Any] = {  # noqa: RUF012  the protocol asks for an instance attribute
        "driver": "asyncpg, uvloop",
        "queue_managers": MANAGERS,
        "batch_size": BATCH_SIZE,
        "bulk_size": BULK_SIZE,
        "autovacuum": "as `pgq autovac` sets it",
    }

    async def open(self, url: str) -> None:
        self._url = url
        self._queries = Queries(await self._driver())

    async def setup(self) -> None:
        await self._queries.install()
        await self._queries.optimize_autovacuum()

    async def enqueue_one(self, payload: Payload) -> None:
        await self._queries.enqueue("noop", json.dumps(payload).encode())

    async def enqueue_bulk(self, payloads: list[Payload]) -> None:
        for chunk in chunks(payloads, BULK_SIZE):
            encoded = [json.dumps(payload).encode() for payload in chunk]
            await self._queries.enqueue(["noop"] * len(chunk), encoded, [0] * len(chunk))

    async def work(self, tally: Tally) -> None:
        await asyncio.gather(*[self._manage(tally) for _ in range(MANAGERS)])

    async def _manage(self, tally: Tally) -> None:
        async def noop(job: Any) -> None:
            if tally.timed:
                tally.started_late(json.loads(job.payload)["sent"])
            else:
                tally.started()

        manager = PgQueuer(await self._driver())
        manager.entrypoint("noop", concurrency_limit=LIMIT if GUARANTEES else 0)(noop)
        await manager.run(batch_size=BATCH_SIZE, dequeue_timeout=timedelta(seconds=30))

    async def _driver(self) -> Any:
        return AsyncpgDriver(await asyncpg.connect(self._url))


if __name__ == "__main__":
    main(PgQueuerPeer())
