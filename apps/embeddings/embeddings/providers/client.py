"""HTTP requests to providers, and the interpretation of their responses."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from embeddings.providers.base import Rejected, RejectedTexts, Vector
from embeddings.settings import Settings

RETRYABLE = {408, 425, 429}
"""Statuses that can be retried. Other 4xx are permanent."""
TEXT_ERRORS = {400, 413, 422}


async def post_json(settings: Settings, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request and return the JSON object of the response; raises on errors."""
    headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
    # One client per call: there are few batches, and an idle worker keeps no connection open.
    async with httpx.AsyncClient(timeout=settings.timeout, headers=headers, verify=_certificates()) as client:
        response = await client.post(f"{settings.url}{path}", json=body)
    if response.status_code in RETRYABLE or response.is_server_error:
        raise ConnectionError(
            f"{settings.provider} returned {response.status_code}: {_error_message(response)}"
        )
    if not response.is_success:
        kind = RejectedTexts if response.status_code in TEXT_ERRORS else Rejected
        raise kind(f"{settings.provider} returned {response.status_code}: {_error_message(response)}")
    found = response.json()
    if not isinstance(found, dict):
        raise TypeError(f"invalid response of {settings.provider}: expected a JSON object")
    return found


@functools.cache
def _certificates() -> ssl.SSLContext:
    """The trusted root certificates. Reading them takes up to 60 ms, so they are read once."""
    return httpx.create_ssl_context()


def validate_vectors(vectors: Any, count: int) -> list[Vector]:
    """Return the vectors after checking their number and length."""
    if not isinstance(vectors, list) or len(vectors) != count:
        raise ValueError(f"invalid response of the provider: expected {count} vectors, one per text")
    if len({len(_numbers(vector)) for vector in vectors}) > 1:
        raise ValueError("invalid response of the provider: the vectors have different lengths")
    return vectors


def _numbers(vector: Any) -> Sequence[float]:
    if not isinstance(vector, list) or not vector or not all(isinstance(x, int | float) for x in vector):
        raise ValueError("invalid response of the provider: expected a vector of numbers")
    return vector


def _error_message(response: httpx.Response) -> str:
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        return response.text[:300]
    return str(error["message"] if isinstance(error, dict) and "message" in error else error)[:300]
