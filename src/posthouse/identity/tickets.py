"""One-time login tickets, passed from the process to the browser that it opens."""

from __future__ import annotations

import secrets
import time

from posthouse.identity.keys import digest
from posthouse.identity.principal import Principal

GOOD_FOR = 600.0


class Tickets:
    """Tickets of this process, stored only as digests in memory."""

    def __init__(self) -> None:
        self._open: dict[bytes, tuple[Principal, float]] = {}

    def issue(self, principal: Principal, *, seconds: float = GOOD_FOR) -> str:
        ticket = f"once_{secrets.token_urlsafe(32)}"
        self._open[digest(ticket)] = (principal, time.monotonic() + seconds)
        return ticket

    def redeem(self, text: str) -> Principal | None:
        """Return the principal of a ticket, the first time that it is used."""
        principal, until = self._open.pop(digest(text), (None, 0.0))
        return principal if time.monotonic() < until else None
