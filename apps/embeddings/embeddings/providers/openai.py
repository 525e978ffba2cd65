"""OpenAI's protocol, which many others speak: POST /embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from embeddings.providers.http import ask, checked
from embeddings.providers.provider import Vector
from embeddings.settings import DIMENSIONS, Settings

SHORTENED = "text-embedding-3"
"""Models of this name give shorter vectors on request; others refuse to be asked."""


class OpenAI:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.model = settings.model

    async def embed(self, model: str, texts: Sequence[str]) -> list[Vector]:
        body: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if model.startswith(SHORTENED):
            body["dimensions"] = DIMENSIONS
        found = await ask(self._settings, "/embeddings", body)
        return checked(_in_order(found.get("data")), len(texts))


def _in_order(items: Any) -> Any:
    """The protocol numbers the vectors, and promises no order."""
    try:
        return [item["embedding"] for item in sorted(items, key=lambda item: item["index"])]
    except (TypeError, KeyError):
        raise ValueError("the provider answered with something that is no list of vectors") from None
