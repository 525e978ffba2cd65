"""Settings: environment variables with the prefix EMBEDDINGS_."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DIMENSIONS = 768
"""Dimensions of the column in the database. Shorter vectors are padded with zeros."""
MODELS = {
    "local": "all-MiniLM-L6-v2/int8",
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


def load_settings(provider: str | None = None) -> Settings:
    """Return the settings of the configured provider, or of another one.

    Model, URL and key belong to the configured provider; those of another one have its name in the variable.
    """
    configured = _configured()
    provider = provider or configured
    prefixes = (f"{provider.upper()}_", *([""] if provider == configured else []))
    return Settings(
        provider=provider,
        model=_first_set([f"{prefix}MODEL" for prefix in prefixes], MODELS[provider]),
        url=_first_set([f"{prefix}URL" for prefix in prefixes], URLS[provider]).rstrip("/"),
        key=_first_set([f"{prefix}KEY" for prefix in prefixes], ""),
        cache=Path(_read("CACHE", str(_cache_folder() / "posthouse-embeddings"))),
        threads=int(_read("THREADS", str(os.cpu_count() or 1))),
        timeout=float(_read("TIMEOUT", "30")),
    )


def keep_unused_days() -> int:
    """Return how many days vectors that no rule uses are kept."""
    return int(_read("KEEP_UNUSED_DAYS", "30"))


def _configured() -> str:
    provider = _read("PROVIDER", "local")
    if provider not in MODELS:
        raise ValueError(f"invalid EMBEDDINGS_PROVIDER {provider!r}: expected one of {', '.join(MODELS)}")
    return provider


def _first_set(names: Sequence[str], default: str) -> str:
    return next((found for name in names if (found := _read(name, ""))), default)


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _read(name: str, default: str) -> str:
    return os.environ.get(f"EMBEDDINGS_{name}") or default
