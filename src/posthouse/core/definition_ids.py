"""The id of a definition: a name-based UUID of its key, the same in every installation."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID, uuid5

NAMESPACE = UUID("8e32bf70-cead-5347-820c-dc98ccea448a")


@lru_cache(maxsize=10_000)
def definition_id(key: str) -> UUID:
    """Return the id of the definition with this key."""
    return uuid5(NAMESPACE, key)
