"""The interface of providers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Vector: TypeAlias = Sequence[float]


class Rejected(Exception):
    """The provider rejected the request permanently: unknown model or invalid key."""


class RejectedTexts(Rejected):
    """The provider rejected one of the texts, for example because it is too long."""


class Provider(Protocol):
    async def embed(self, model: str, texts: Sequence[str]) -> list[Vector]:
        """Return a vector for each text. Raises Rejected for errors that a retry cannot fix."""
        ...
