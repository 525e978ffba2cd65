"""What every provider does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Vector: TypeAlias = Sequence[float]


class Rejected(Exception):
    """The provider will never do this: it does not have the model, or does not know the key."""


class RejectedTexts(Rejected):
    """It does not take one of the texts, which may be too long."""


class Provider(Protocol):
    model: str
    """The one that is used if a job names none."""

    async def embed(self, model: str, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text. Raises Rejected for what a retry would not mend."""
        ...
