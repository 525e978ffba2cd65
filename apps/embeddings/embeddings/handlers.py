"""Jobs of the application: embed rules in batches, change the model, delete unused vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import posthouse
from embeddings import store
from embeddings.batch_embedder import BatchEmbedder
from embeddings.models import lock_active_model, store_models
from embeddings.providers import Rejected, Vector, full_name
from embeddings.reembedding import Reembedding
from embeddings.settings import keep_unused_days
from embeddings.store import Found, Request, Text

app = posthouse.App(schema=Path(__file__).with_name("schema.sql"), routes="embeddings.routes")

BATCH = 150
"""Jobs per batch, whose texts are embedded in calls of batch_embedder.TEXTS_PER_CALL.

The transactions and statements of a batch cost CPU time that the local model needs: per text, batches of 50
take 0.18 ms in Postgres and batches of 150 take 0.13 ms.
"""
RETRY = posthouse.Retry.exponential("60s", cap="5m", jitter=0)
"""One minute after the first attempt, two after the second, at most five."""
TIMEOUT = "5m"
VERSION = version("posthouse")
BUSY_PAUSE = "5s"
"""Snooze of the job that indexes, while texts wait to be embedded."""
MOMENT = "200ms"
"""Snooze while another batch computes the same text."""
INDEXED_AT_ONCE = 100


@dataclass
class EmbedPayload:
    """The payload, as created by embeddings.request in the database."""

    rule_id: UUID
    input_text: str
    text_hash: str
    embedding_model: str | None = None


@app.job(
    "embeddings.embed",
    queue="embeddings",
    batch=BATCH,
    batches=2,  # while one computes, the other reads and writes; with three, an urgent job waits longer
    takes=EmbedPayload,
    retry=RETRY,
    max_attempts=3,
    timeout=TIMEOUT,
    fail_on=[Rejected],
)
async def embed(jobs: list[posthouse.Job]) -> list[Any]:
    """Compute and store the vectors of a batch of rules."""
    return await _embedded(jobs)


@app.job(
    "embeddings.reembed",
    queue="embeddings",
    priority="low",
    retry=RETRY,
    max_attempts=10,
    timeout=None,
    fail_on=[Rejected],
    limits=[posthouse.Limit(running=1)],
)
async def reembed(job: posthouse.Job) -> dict[str, Any]:
    """Embed all texts with the next model, then switch to it."""
    return await Reembedding(job).run()


@app.job("embeddings.sweep", queue="embeddings", priority="low", timeout="10m")
async def sweep(job: posthouse.Job) -> dict[str, int]:
    """Delete vectors that no rule has used for EMBEDDINGS_KEEP_UNUSED_DAYS."""
    async with job.transaction() as db:
        return {"deleted": await store.sweep(db, timedelta(days=keep_unused_days()))}


sweep.on_schedule("45 3 * * *", overlap="skip", label="Delete unused vectors")


@app.job("embeddings.index", queue="embeddings", priority="low", timeout=None)
async def index(job: posthouse.Job) -> dict[str, int] | posthouse.Snooze:
    """Add vectors to the HNSW index where there are too many to search without it.

    It leaves the CPU to the texts that wait to be embedded, until searches would become slow.
    """
    indexed = 0
    async with job.transaction() as db:
        full = await store.not_indexed(db)
    for tenant, model in full:
        more = INDEXED_AT_ONCE
        while more:
            async with job.transaction() as db:
                if await store.index_can_wait(db):
                    return posthouse.Snooze(BUSY_PAUSE)
                more = await store.index(db, tenant, model, INDEXED_AT_ONCE)
            indexed += more
    return {"indexed": indexed}


async def _embedded(jobs: Sequence[posthouse.Job]) -> list[Any]:
    """Run a batch. No transaction is open while the provider computes.

    Leases keep other workers from computing the same texts, as long as the jobs of this batch run.
    """
    async with jobs[0].transaction() as db:
        models = await store_models(db)
        requests = [_request(job, models.active) for job in jobs]
        pairs = list(zip(requests, await store.take(db, requests), strict=True))
    embedder = BatchEmbedder()
    vectors = await embedder.vectors(_missing(pairs))
    async with jobs[0].transaction() as db:
        active = await lock_active_model(db)
        await store.keep(db, vectors)
        await store.release(db, [one for one, known in pairs if known.is_taken])
        await store.forget_previous(db, [one for one, known in pairs if known.has_previous])
    outcomes = BatchOutcomes(embedder, vectors, models.active, active)
    return [outcomes.to(request, known) for request, known in pairs]


def _request(job: posthouse.Job, active: str) -> Request:
    payload = job.payload
    named = payload.get("embedding_model")
    text = Text(job.tenant, full_name(named) if named else active, payload["text_hash"])
    return Request(text, payload["input_text"], UUID(payload["rule_id"]), job.id, job.token)


def _missing(pairs: Sequence[tuple[Request, Found]]) -> dict[Text, str]:
    """Return the texts to compute, each once."""
    return {
        request.text: request.input_text
        for request, known in pairs
        if known.is_current and known.is_taken and known.dimensions is None
    }


class BatchOutcomes:
    """Outcomes of the jobs of a batch."""

    def __init__(
        self,
        embedder: BatchEmbedder,
        vectors: Mapping[Text, Vector],
        before: str,
        active: str,
    ) -> None:
        self._embedder = embedder
        self._vectors = vectors
        self._replaced = before if before != active else None
        self._reported: set[Text] = set()

    def to(self, request: Request, known: Found) -> Any:
        text = request.text
        if not known.rule_exists:
            return posthouse.Cancel("the rule was deleted")
        if not known.is_current:
            return posthouse.Cancel("the text of the rule has changed; another job embeds the new text")
        if text in self._embedder.errors:
            return self._embedder.errors[text]
        dimensions = len(self._vectors[text]) if text in self._vectors else known.dimensions
        if dimensions is None or text.model == self._replaced:
            # Another batch computes it, or the model was changed: the next run sees which.
            return posthouse.Snooze(MOMENT)
        return self._success(text, dimensions)

    def _success(self, text: Text, dimensions: int) -> dict[str, Any]:
        reused = text not in self._vectors or text in self._reported
        self._reported.add(text)
        return {
            "embedding_model": text.model,
            "embedding_dimensions": dimensions,
            "reused": reused,
            "worker_version": VERSION,
            "processing_time_ms": 0.0 if reused else self._embedder.milliseconds_each,
        }
