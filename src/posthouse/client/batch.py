"""The requests of one enqueue and the results, independent of the connection that carries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload
from uuid import UUID

from posthouse.client.bulk import AFTER_ROWS, ASIDE_BYTES, BEFORE_ROWS, CHUNK, Copier
from posthouse.core.ids import new_ids
from posthouse.core.payload import payload_bytes
from posthouse.core.request import Request
from posthouse.errors import DuplicateJob

Outcome: TypeAlias = Literal["created", "repeated", "existing", "rejected"]


Receipt: TypeAlias = tuple[UUID, Outcome]
"""Result of one request: the id of the job, and how it came about."""


class Batch:
    """Requests with their job ids. The ids stay the same when the batch is sent again."""

    def __init__(self, requests: Sequence[Request], payload_limit: int) -> None:
        self.requests = requests
        self.ids = [
            made if request.id is None else request.id.bytes
            for request, made in zip(requests, new_ids(len(requests)), strict=True)
        ]
        self.payload_limit = payload_limit

    def for_engine(self, *, again: bool = False) -> Sending:
        """Plan to send all requests through posthouse.enqueue_many. ``again``: they may have been sent
        before.
        """
        return Sending(self, range(len(self.requests)), again=again)

    def for_bulk(self, *, again: bool = False) -> Sending:
        """Plan to send plain requests by COPY. A repeated send uses the engine, which detects
        existing jobs.
        """
        if again or len(self.requests) == 1 or not any(map(_is_bare, self.requests)):
            return self.for_engine(again=again)
        return Sending(self, ())


class Sending:
    """One attempt to send a batch: some requests by COPY, the others through the engine."""

    def __init__(self, batch: Batch, engine_places: Sequence[int], *, again: bool = False) -> None:
        self._batch = batch
        self._places = list(engine_places)
        self._again = again
        self.copies = not self._places
        self.plain_one = not again and len(batch.requests) == 1 and _is_bare(batch.requests[0])

    def fields(self) -> dict[str, Any]:
        """Return the fields of the only request.

        Separate parameters save the database 60 of 125 µs compared with parsing JSON.
        """
        return self._batch.requests[0].plain_fields(UUID(bytes=self._batch.ids[0]), self._batch.payload_limit)

    @property
    def kinds(self) -> list[str]:
        return sorted({request.kind for request in self._batch.requests})

    def blocks(self, copier: Copier) -> Iterator[bytes]:
        """Yield the rows for COPY in blocks, so that the database stores one block while the next is encoded.

        Requests that are not plain, and payloads that are too large to be moved between tables, are left to
        the engine.
        """
        batch = self._batch
        limit = batch.payload_limit
        rows = [BEFORE_ROWS]
        for place, request in enumerate(batch.requests):
            payload = payload_bytes(request.payload, limit)
            if len(payload) > ASIDE_BYTES or not (_is_bare(request) and copier.takes(request)):
                self._places.append(place)
                continue
            rows.append(copier.row(request, batch.ids[place], payload))
            if len(rows) >= CHUNK:
                yield b"".join(rows)
                rows.clear()
        rows.append(AFTER_ROWS)
        yield b"".join(rows)

    def parameter(self) -> str | None:
        """Return the JSON array for posthouse.enqueue_many, or None if no request is left for it."""
        batch = self._batch
        items = [
            batch.requests[place].to_json(
                UUID(bytes=batch.ids[place]),
                verify=self._again or batch.requests[place].id is not None,
                payload_limit=batch.payload_limit,
            )
            for place in self._places
        ]
        return f"[{','.join(items)}]" if items else None

    def receipts(self, answers: Iterable[Sequence[Any]] = ()) -> Receipts:
        """Return the results of the engine and of COPY in the order of the requests."""
        answered: dict[int, Receipt] = {
            self._places[ordinal - 1]: (UUID(str(job_id)), outcome) for ordinal, job_id, outcome in answers
        }
        return Receipts(self._batch.ids, answered)


class Receipts(Sequence[Receipt]):
    """Results in the order of the requests, each created on access.

    Most callers of a bulk enqueue use none of them, and keeping objects alive costs garbage collection:
    created on access, a job takes 9.7 µs instead of 14.5 µs (measured alternately).
    """

    def __init__(self, ids: Sequence[bytes], answered: Mapping[int, Receipt]) -> None:
        self._ids = ids
        self._answered = answered

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> Receipt: ...
    @overload
    def __getitem__(self, place: slice) -> list[Receipt]: ...
    def __getitem__(self, place: int | slice) -> Receipt | list[Receipt]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        job_id = self._ids[place]
        return self._answered.get(place % len(self)) or (UUID(bytes=job_id), "created")


def _is_bare(request: Request) -> bool:
    """Whether the fast paths can be used. They do not store traces, so they are skipped while tracing."""
    return request.plain and request.trace is None


def only(receipts: Sequence[Receipt], request: Request) -> Receipt:
    """Return the only result. Raises DuplicateJob if the request was rejected."""
    job_id, outcome = receipts[0]
    if outcome == "rejected":
        key = repr(request.dedupe_key) if request.dedupe_key else "for this content"
        raise DuplicateJob(f"dedupe key {key} is taken by job {job_id}")
    return job_id, outcome
