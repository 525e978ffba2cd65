"""Requests vectors from a provider and isolates texts that it rejects."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from embeddings.providers import RejectedTexts, Vector, embed
from embeddings.store import Text


class BatchEmbedder:
    """Computes the vectors of a batch.

    A rejected text or an unavailable provider fails only the affected texts; ``errors`` maps texts to errors.
    """

    def __init__(self) -> None:
        self.errors: dict[Text, Exception] = {}
        self.milliseconds_each = 0.0

    async def vectors(self, missing: Mapping[Text, str]) -> dict[Text, Vector]:
        if not missing:
            return {}
        started = time.perf_counter()
        found: dict[Text, Vector] = {}
        for model in dict.fromkeys(text.model for text in missing):
            found |= await self._of_model(model, {t: s for t, s in missing.items() if t.model == model})
        self.milliseconds_each = round((time.perf_counter() - started) * 1000 / len(missing), 3)
        return found

    async def _of_model(self, model: str, texts: Mapping[Text, str]) -> dict[Text, Vector]:
        try:
            return dict(zip(texts, await embed(model, list(texts.values())), strict=True))
        except RejectedTexts as error:
            if len(texts) > 1:
                return await self._halved(model, list(texts.items()))
            self.errors |= dict.fromkeys(texts, error)
        except Exception as error:  # noqa: BLE001 - fails these jobs only
            self.errors |= dict.fromkeys(texts, error)
        return {}

    async def _halved(self, model: str, texts: Sequence[tuple[Text, str]]) -> dict[Text, Vector]:
        """Split the batch, because the provider does not say which text it rejects."""
        middle = len(texts) // 2
        first = await self._of_model(model, dict(texts[:middle]))
        return first | await self._of_model(model, dict(texts[middle:]))
