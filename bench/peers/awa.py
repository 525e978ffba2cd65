"""Awa: its queue storage, filled by COPY, claimed in large batches."""

# This script runs in the peers' environment; the repository's own has no such package.
# mypy: disable-error-code="import-not-found, import-untyped"

from dataclasses import dataclass
from typing import Any

from awa import AsyncClient

from .protocol import GUARANTEES, RATE_LIMIT, Payload, Tally, chunks, main

# A job holds its place until its completion is durable: 512 places are a tenth slower, 2,048 no
# faster. Neither are a second claimer or larger claims.
MAX_WORKERS = 1024
CLAIM_BATCH_SIZE = 512
CLAIMERS = 1
BULK_SIZE = 5000


@dataclass
class Noop:
    sent: float
    pad: str


class AwaPeer:
    package = "awa-pg"
    settings: dict[str, Any] = {  # noqa: RUF012  the protocol asks for an instance attribute
        "storage": "queue_storage",
        "max_workers": MAX_WORKERS,
        "claim_batch_size": CLAIM_BATCH_SIZE,
        "claimers": CLAIMERS,
        "bulk_size": BULK_SIZE,
    }

    async def open(self, url: str) -> None:
        self._client = AsyncClient(url, max_connections=10)

    async def setup(self) -> None:
        await self._client.migrate()
        await self._client.install_queue_storage()

    async def enqueue_one(self, payload: Payload) -> None:
        await self._client.insert(Noop(**payload), queue="bench")

    async def enqueue_bulk(self, payloads: list[Payload]) -> None:
        for chunk in chunks(payloads, BULK_SIZE):
            await self._client.enqueue_many_copy([Noop(**p) for p in chunk], queue="bench")

    async def work(self, tally: Tally) -> None:
        async def noop(job: Any) -> None:
            if tally.timed:
                tally.started_late(job.args.sent)
            else:
                tally.started()

        self._client.task(Noop, queue="bench")(noop)
        await self._client.start(
            [
                {
                    "name": "bench",
                    "max_workers": MAX_WORKERS,
                    "claimers": CLAIMERS,
                    "claim_batch_size": CLAIM_BATCH_SIZE,
                    **({"rate_limit": (float(RATE_LIMIT), RATE_LIMIT)} if GUARANTEES else {}),
                }
            ],
        )


if __name__ == "__main__":
    main(AwaPeer())
