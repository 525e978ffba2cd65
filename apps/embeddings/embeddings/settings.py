"""Settings: environment variables with the prefix EMBEDDINGS_."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DIMENSIONS = 768
"""Dimensions of the column in the database. Shorter vectors are padded with zeros."""
MODELS = {
    "local": "all-MiniLM-L6-v2",
    "ollama": "nomic-embed-text",
    "openai": "text-embedding-3-small",
}
URLS = {"local": "", "ollama": "http://127.0.0.1:11434", "openai": "https://api.openai.com/v1"}


@dataclass(frozen=True)
class Settings:
    provider: str
    model: str
    url: str
    key: str
    cache: Path
    threads: int
    timeout: float


def load_settings() -> Settings:
    provider = _read("PROVIDER", "local")
    if provider not in MODELS:
        raise ValueError(f"invalid EMBEDDINGS_PROVIDER {provider!r}: expected one of {', '.join(MODELS)}")
    return Settings(
        provider=provider,
        model=_read("MODEL", MODELS[provider]),
        url=_read("URL", URLS[provider]).rstrip("/"),
        key=_read("KEY", ""),
        cache=Path(_read("CACHE", str(_caches() / "posthouse-embeddings"))),
        threads=int(_read("THREADS", str(os.cpu_count() or 1))),
        timeout=float(_read("TIMEOUT", "30")),
    )


def _caches() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _read(name: str, default: str) -> str:
    return os.environ.get(f"EMBEDDINGS_{name}") or default
