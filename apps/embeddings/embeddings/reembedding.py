"""The change to another model: embed all texts in the background, then switch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import posthouse
from embeddings import store
from embeddings.batch_embedder import BatchEmbedder
from embeddings.models import Models, count_texts, find_models, missing_texts, switch_model
from embeddings.providers import Rejected
from embeddings.store import Text

BATCH = 50
STEPS_PER_MINUTE = 12
"""A limited rate is divided into at least this many batches, so that a pause takes effect within seconds."""


class Reembedding:
    """One run of the change, from the first text without a vector of the next model to the switch.

    What is done is in the database: a run that was killed, paused or released continues where it ended.
    """

    def __init__(self, job: posthouse.Job) -> None:
        self._job = job
        self._rejected: dict[Text, Exception] = {}

    async def run(self) -> dict[str, Any]:
        while True:
            models = await self._models()
            if models.next is None or models.is_paused:
                return {"status": "canceled" if models.next is None else "paused", "active": models.active}
            stored = await self._embed_missing(models.next)
            if await self._try_switch(models.next):
                return {"status": "switched", "active": models.next, "replaced": models.active}
            if self._rejected and not stored and not (await self._models()).is_paused:
                raise self._rejection(models.next)

    async def _embed_missing(self, model: str) -> int:
        """Embed the missing texts in the order of their keys; return how many were stored.

        Rules that are written meanwhile may come before the position: the next pass finds them.
        """
        position, stored = Text("", model, ""), 0
        self._rejected.clear()
        while True:
            started = time.monotonic()
            models = await self._models()
            if models.next != model or models.is_paused:
                return stored
            texts = await self._missing(models, model, position)
            if not texts:
                return stored
            stored += await self._embed(texts)
            position = list(texts)[-1]
            await asyncio.sleep(delay(models.texts_per_minute, len(texts), time.monotonic() - started))

    async def _missing(self, models: Models, model: str, position: Text) -> dict[Text, str]:
        async with self._job.transaction() as db:
            total, done = await count_texts(db, model)
            texts = await missing_texts(db, model, position, batch_size(models.texts_per_minute))
        await self._job.progress(100 * done / max(1, total), message=f"{done} of {total} texts")
        return texts

    async def _embed(self, texts: Mapping[Text, str]) -> int:
        embedder = BatchEmbedder()
        vectors = await embedder.vectors(texts)
        async with self._job.transaction() as db:
            await store.keep(db, vectors)
        for text, error in embedder.errors.items():
            if not isinstance(error, Rejected):
                raise error
            self._rejected[text] = error
        return len(vectors)

    async def _models(self) -> Models:
        async with self._job.transaction() as db:
            return await find_models(db)

    async def _try_switch(self, model: str) -> bool:
        async with self._job.transaction() as db:
            return await switch_model(db, model)

    def _rejection(self, model: str) -> Rejected:
        text, error = next(iter(self._rejected.items()))
        return Rejected(
            f"{model} rejected {len(self._rejected)} texts, the first in a rule of tenant {text.tenant!r}: "
            f"{error}; change or delete these rules and resume, or cancel the change"
        )


def batch_size(texts_per_minute: int | None) -> int:
    """Return how many texts to embed at once."""
    if texts_per_minute is None:
        return BATCH
    return max(1, min(BATCH, texts_per_minute // STEPS_PER_MINUTE))


def delay(texts_per_minute: int | None, texts: int, elapsed: float) -> float:
    """Return how many seconds to wait after a batch to keep the rate."""
    if texts_per_minute is None:
        return 0.0
    return max(0.0, texts * 60 / texts_per_minute - elapsed)
