"""One request to a provider over HTTP, and what its answers mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from embeddings.providers.provider import Rejected, RejectedTexts, Vector
from embeddings.settings import Settings

BUSY = {408, 425, 429}
"""Answers that mean: not now. Other 4xx mean: never."""
ABOUT_TEXTS = {400, 413, 422}


async def ask(settings: Settings, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the provider answers; raises if it is not what was asked for."""
    headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
    # A client for each call: batches are few, and none is kept open by a worker that has nothing to do.
    async with httpx.AsyncClient(timeout=settings.timeout, headers=headers) as client:
        answer = await client.post(f"{settings.url}{path}", json=body)
    if answer.status_code in BUSY or answer.is_server_error:
        raise ConnectionError(f"{settings.provider} answered {answer.status_code}: {_said(answer)}")
    if not answer.is_success:
        kind = RejectedTexts if answer.status_code in ABOUT_TEXTS else Rejected
        raise kind(f"{settings.provider} answered {answer.status_code}: {_said(answer)}")
    found = answer.json()
    if not isinstance(found, dict):
        raise TypeError(f"{settings.provider} answered with something that is no object")
    return found


def checked(vectors: Any, count: int) -> list[Vector]:
    """The vectors, if they are as many as there were texts, and all of one length."""
    if not isinstance(vectors, list) or len(vectors) != count:
        raise ValueError(f"the provider was given {count} texts and did not answer with as many vectors")
    if len({len(_numbers(vector)) for vector in vectors}) > 1:
        raise ValueError("the provider answered with vectors of different lengths")
    return vectors


def _numbers(vector: Any) -> Sequence[float]:
    if not isinstance(vector, list) or not vector or not all(isinstance(x, int | float) for x in vector):
        raise ValueError("the provider answered with something that is no vector")
    return vector


def _said(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]
    return str(error["message"] if isinstance(error, dict) and "message" in error else error)[:300]
