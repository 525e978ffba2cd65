"""Mask secrets in a stream of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = b"[secret]"
_SHORTEST = 4  # shorter ones would match by chance


class Masker:
    """Replaces secrets even if they arrive in pieces: a possible start of a secret is held back."""

    def __init__(self, secrets: Iterable[str]) -> None:
        found = {secret.encode() for secret in secrets if len(secret) >= _SHORTEST}
        self._secrets = sorted(found, key=len, reverse=True)  # a secret may be the start of another one
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._secrets:
            return data
        data = self._held + data
        starts = self._possible_starts(data)
        done, written = 0, []
        for match in self._pattern.finditer(data):
            if any(done <= start <= match.start() for start in starts):
                break  # it may be part of a longer secret
            written += [data[done : match.start()], MASK]
            done = match.end()
        hold = min((start for start in starts if start >= done), default=len(data))
        self._held = data[hold:]
        return b"".join((*written, data[done:hold]))

    def release(self) -> bytes:
        """Return the bytes that were held back."""
        held, self._held = self._held, b""
        return self._pattern.sub(MASK, held) if self._secrets else held

    def _possible_starts(self, data: bytes) -> set[int]:
        """Return the positions where a secret may begin whose rest has not arrived yet."""
        return {
            len(data) - length
            for secret in self._secrets
            for length in range(1, min(len(secret), len(data) + 1))
            if data.endswith(secret[:length])
        }
