"""A client's cache of the definitions of the kinds that it enqueues, refreshed every few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from posthouse.commands.payloads import problems_with
from posthouse.core.kind import KindRules
from posthouse.core.payload import encode_payload
from posthouse.core.request import Request
from posthouse.core.schema import MOST_PROBLEMS
from posthouse.errors import InvalidPayload

FRESH_SECONDS = 5.0
MOST_KINDS = 10_000


class _Known(NamedTuple):
    until: float
    rules: KindRules | None  # None: nothing to validate or override
    defined: bool


class Kinds:
    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def unknown(self, requests: Sequence[Request]) -> list[str]:
        """Return the kinds whose definitions must be loaded before these requests are sent."""
        now = time.monotonic()
        known = self._known
        kinds = {requests[0].kind} if len(requests) == 1 else {request.kind for request in requests}
        return [kind for kind in kinds if kind not in known or known[kind].until < now]

    def learn(self, asked: Iterable[str], texts: Iterable[str]) -> None:
        """Cache the loaded definitions. Kinds that are not among them have no definition."""
        if len(self._known) > MOST_KINDS:
            self._known.clear()
        until = time.monotonic() + FRESH_SECONDS
        found = {rules.key: rules for rules in map(KindRules.from_text, texts)}
        for kind in asked:
            rules = found.get(kind)
            binding = None if rules is None or rules.allow_all else rules
            self._known[kind] = _Known(until, binding, rules is not None)

    def undefined(self, requests: Sequence[Request]) -> list[Request]:
        """Return a request of each kind that the database knew no definition of."""
        found = {request.kind: request for request in requests}
        return [found[kind] for kind in found if kind in self._known and not self._known[kind].defined]

    def admitted(self, requests: Sequence[Request], payload_limit: int) -> Sequence[Request]:
        """Return the requests with overrides applied. Raises InvalidPayload if a payload is invalid for its
        kind.
        """
        kinds = {requests[0].kind} if len(requests) == 1 else {request.kind for request in requests}
        if not any(self._rules(kind) for kind in kinds):
            return requests
        admitted: list[Request] = []
        problems: list[str] = []
        for place, request in enumerate(requests):
            rules = self._rules(request.kind)
            if rules is None:
                admitted.append(request)
                continue
            admitted.append(request if request.implied is None else rules.gives_way(request))
            if request.implied is None or rules.operators_schema:
                found = problems_with(rules, encode_payload(request.payload, payload_limit), request.about)
                where = f"request {place}: " if found and len(requests) > 1 else ""
                problems += [f"{where}{request.kind}: {problem}" for problem in found]
                if len(problems) >= MOST_PROBLEMS:
                    break
        if problems:
            raise InvalidPayload(f"nothing was enqueued: {'; '.join(problems[:MOST_PROBLEMS])}")
        return admitted

    def _rules(self, kind: str) -> KindRules | None:
        known = self._known.get(kind)
        return None if known is None else known.rules


def refuse_unstorable(requests: Sequence[Request], payload_limit: int) -> None:
    """Reject payloads that can never be stored, before the caller's transaction is used."""
    for request in requests:
        encode_payload(request.payload, payload_limit)
