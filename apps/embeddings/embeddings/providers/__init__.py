"""Providers of vectors: a local model, Ollama, or an OpenAI-compatible API.

Stored vectors carry the full name of their model: the provider, the model and, where known, the
quantisation, such as ``local/all-MiniLM-L6-v2/int8``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from embeddings.providers.base import Provider, Rejected, RejectedTexts, Vector
from embeddings.settings import DIMENSIONS, MODELS, load_settings

__all__ = ["Rejected", "RejectedTexts", "Vector", "configured_model", "embed", "full_name", "provider"]


def configured_model() -> str:
    """Return the full name of the configured model."""
    settings = load_settings()
    return f"{settings.provider}/{settings.model}"


def full_name(model: str) -> str:
    """Return the full name of a model; one without a provider belongs to the configured provider."""
    kind, _, rest = model.partition("/")
    return model if kind in MODELS and rest else f"{load_settings().provider}/{model}"


async def embed(name: str, texts: Sequence[str]) -> list[Vector]:
    """Return the vectors of texts by the model of this full name."""
    kind, _, model = name.partition("/")
    vectors = await provider(kind).embed(model, texts)
    if len(vectors[0]) > DIMENSIONS:
        raise Rejected(
            f"model {name} returns {len(vectors[0])} dimensions, more than the maximum of {DIMENSIONS}"
        )
    return vectors


def provider(kind: str | None = None) -> Provider:
    """Return a provider; default: the configured one."""
    settings = load_settings(kind)
    if settings.provider == "ollama":
        from embeddings.providers.ollama import Ollama  # noqa: PLC0415 - load only the provider in use

        return Ollama(settings)
    if settings.provider == "openai":
        from embeddings.providers.openai import OpenAI  # noqa: PLC0415 - likewise

        return OpenAI(settings)
    return _local()


@cache
def _local() -> Provider:
    """Return the local model. Loading it takes time and memory, so there is one per process."""
    from embeddings.providers.local import Local  # noqa: PLC0415 - load only the provider in use

    return Local(load_settings("local"))
