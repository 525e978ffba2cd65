"""Providers of vectors: a local model, Ollama, or an OpenAI-compatible API."""

from __future__ import annotations

from functools import cache

from embeddings.providers.provider import Provider, Rejected, RejectedTexts
from embeddings.settings import load_settings

__all__ = ["Provider", "Rejected", "RejectedTexts", "provider"]


@cache
def provider() -> Provider:
    """Return the configured provider."""
    settings = load_settings()
    if settings.provider == "ollama":
        from embeddings.providers.ollama import Ollama  # noqa: PLC0415 - load only the provider in use

        return Ollama(settings)
    if settings.provider == "openai":
        from embeddings.providers.openai import OpenAI  # noqa: PLC0415 - likewise

        return OpenAI(settings)
    from embeddings.providers.local import Local  # noqa: PLC0415 - likewise

    return Local(settings)
