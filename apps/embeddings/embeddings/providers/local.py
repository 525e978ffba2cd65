"""all-MiniLM-L6-v2 in this process: onnxruntime with int8 weights, without torch and network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from embeddings.minilm import Encoder
from embeddings.providers.base import Rejected, Vector
from embeddings.settings import MODELS, Settings

MODEL = MODELS["local"]


class Local:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loading = threading.Lock()
        self._encoder: Encoder | None = None

    async def embed(self, model: str, texts: Sequence[str]) -> list[Vector]:
        if model != MODEL:
            raise Rejected(f"the local provider does not have model {model}; it has {MODEL}")
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> Any:
        with self._loading:
            if self._encoder is None:
                self._encoder = Encoder.load(self._settings.cache, threads=self._settings.threads)
        return self._encoder.encode(texts)
