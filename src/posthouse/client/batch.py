"""What an enqueue sends and what it hears back, whoever carries it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from posthouse.client.bulk import ASIDE_BYTES, Row
from posthouse.core.payload import encode_payload
from posthouse.core.request import Request
from posthouse.errors import DuplicateJob

Outcome: TypeAlias = Literal["created", "repeated", "existing", "rejected"]


class Receipt(NamedTuple):
    """What became of one request: the job that stands for it, and how it came to."""

    id: UUID
    outcome: Outcome


class Batch:
    """Requests with their ids. The ids stay the same however often the batch is sent."""

    def __init__(self, requests: Iterable[Request], payload_limit: int) -> None:
        self._entries = [(request, *request.identified()) for request in requests]
        self._limit = payload_limit

    def for_engine(self, *, again: bool = False) -> Sending:
        """All of it through posthouse.enqueue_many. ``again``: it may have been sent before."""
        return self._sending([], range(len(self._entries)), again=again)

    def for_bulk(self, *, again: bool = False) -> Sending:
        """By COPY what can go that way. A repeat goes through the engine, which knows what is there."""
        if again or len(self._entries) == 1:
            return self.for_engine(again=again)
        rows: list[Row] = []
        rest: list[int] = []
        for place, (request, job_id, _) in enumerate(self._entries):
            payload = encode_payload(dict(request.payload), self._limit) if request.plain else ""
            if payload and len(payload) <= ASIDE_BYTES:
                rows.append(Row(place, request, job_id, payload))
            else:
                rest.append(place)
        return self._sending(rows, rest, again=False)

    def _sending(self, rows: list[Row], places: Sequence[int], *, again: bool) -> Sending:
        items = []
        for place in places:
            request, job_id, known = self._entries[place]
            items.append(request.to_json(job_id, verify=known or again, payload_limit=self._limit))
        return Sending(rows, places, f"[{','.join(items)}]" if items else None)


@dataclass(frozen=True, slots=True)
class Sending:
    """One try at sending a batch: rows for COPY, and the parameter for the engine if it needs one."""

    rows: list[Row]
    places: Sequence[int]
    parameter: str | None

    @property
    def kinds(self) -> list[str]:
        return sorted({row.request.kind for row in self.rows})

    def receipts(self, answers: Iterable[Sequence[Any]]) -> list[Receipt]:
        """What the engine answered and what was copied, in the order of the requests."""
        found = {row.place: Receipt(row.id, "created") for row in self.rows}
        for ordinal, job_id, outcome in answers:
            found[self.places[ordinal - 1]] = Receipt(UUID(str(job_id)), outcome)
        return [found[place] for place in sorted(found)]


def only(receipts: list[Receipt], request: Request) -> Receipt:
    """The one receipt; a rejected one is an error."""
    receipt = receipts[0]
    if receipt.outcome == "rejected":
        key = repr(request.dedupe_key) if request.dedupe_key else "for this content"
        raise DuplicateJob(f"dedupe key {key} is taken by job {receipt.id}")
    return receipt
