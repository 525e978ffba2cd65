"""Enqueue and wait, for code without an event loop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

from psycopg import Connection

from posthouse.client.batch import Batch, Receipt, Sending, only
from posthouse.client.bulk import Copier, ways_to_copy
from posthouse.client.callers import ask_on_sync
from posthouse.client.client import RETRY_FOR
from posthouse.client.emitting import EventOptions, event_text
from posthouse.client.endings import FIRST_PAUSE, LONGEST_PAUSE
from posthouse.client.handle import Handles, SyncHandle, result_of
from posthouse.client.kinds import Kinds, refuse_unstorable
from posthouse.client.options import Options
from posthouse.core.duration import Duration, seconds
from posthouse.core.request import Request
from posthouse.errors import DatabaseUnavailable, JobNotFound, WaitTimeout
from posthouse.settings import Settings, load_settings
from posthouse.storage.connect import connect_sync, retry_pause
from posthouse.storage.errors import translated
from posthouse.storage.queries import query
from posthouse.storage.server import database_url
from posthouse.tracing import producing, start_tracing

T = TypeVar("T")


class SyncClient:
    """Enqueues jobs and waits for them. ``with SyncClient() as client:``, or close() it. Thread-safe."""

    def __init__(self, url: str | None = None, *, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings(database_url=url)
        if self.settings.tracing:
            start_tracing()
        self._connection: Connection[tuple[Any, ...]] | None = None
        self._lock = threading.Lock()
        self._kinds = Kinds()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._discard()

    def enqueue(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[Options],
    ) -> SyncHandle:
        """Enqueue one job; on ``connection`` if given, in the transaction that is open there."""
        return self.submit(Request(kind=kind, payload=payload or {}, **options), connection=connection)

    def submit(self, request: Request, *, connection: Any = None) -> SyncHandle:
        """Enqueue one job from its request."""
        return SyncHandle(self, *only(self._send([request], connection), request))

    def enqueue_many(self, requests: Iterable[Request], *, connection: Any = None) -> Sequence[SyncHandle]:
        """Enqueue many, all or none. Plain ones go by COPY. A rejected duplicate shows in its outcome."""
        return Handles(partial(SyncHandle, self), self._send(list(requests), connection))

    def emit(
        self,
        name: str,
        context: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EventOptions],
    ) -> UUID:
        """Say that something happened: triggers make jobs of it. Returns the event's id.

        On ``connection`` if given, in the transaction that is open there: no commit, no event.
        """
        event_id, text = event_text(name, context, options, self.settings.max_payload_bytes)
        if connection is None:
            self._run(lambda c, _: c.execute(query("emit"), (text,)))
        else:
            with translated():
                ask_on_sync(connection, "emit", text)
        return event_id

    def wait(self, job_id: UUID, timeout: Duration | None = None) -> Any:
        """The result of a job, once it has succeeded. Raises JobFailed, JobNotFound or WaitTimeout."""
        limit = None if timeout is None else seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        pause = FIRST_PAUSE
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            row = self._run(lambda c, _: c.execute(query("job_ending"), (job_id,)).fetchone(), left)
            if row is None:
                raise JobNotFound(f"there is no job {job_id}")
            if row[0] not in {"queued", "running"}:
                return result_of(job_id, *row)
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"job {job_id} was still {row[0]} after {limit:g} s")
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _send(self, requests: list[Request], connection: Any) -> Sequence[Receipt]:
        if not requests:
            return []
        with producing(requests) as traced:
            return self._send_traced(traced, connection)

    def _send_traced(self, requests: Sequence[Request], connection: Any) -> Sequence[Receipt]:
        admitted = self._admitted(requests, connection)
        batch = Batch(admitted, self.settings.max_payload_bytes)
        if connection is None:
            return self._run(lambda c, again: _send(c, batch.for_bulk(again=again)))
        sending = batch.for_engine()
        with translated():
            return sending.receipts(ask_on_sync(connection, "enqueue_here", sending.parameter() or "[]"))

    def _admitted(self, requests: Sequence[Request], connection: Any) -> Sequence[Request]:
        """The requests after a look at the definitions of their kinds, which is taken every few seconds."""
        unknown = self._kinds.unknown(requests)
        if unknown:
            asked = json.dumps(unknown)
            if connection is None:
                rows: Sequence[Any] = self._run(
                    lambda c, _: c.execute(query("definition_rules"), (asked,)).fetchall()
                )
            else:
                refuse_unstorable(requests, self.settings.max_payload_bytes)
                with translated():
                    rows = ask_on_sync(connection, "definition_rules", asked)
            self._kinds.learn(unknown, [row[0] for row in rows])
        return self._kinds.admitted(requests, self.settings.max_payload_bytes)

    def _run(
        self, work: Callable[[Connection[tuple[Any, ...]], bool], T], patience: float | None = None
    ) -> T:
        """Does the work, again with True after a lost connection."""
        give_up = time.monotonic() + (RETRY_FOR if patience is None else min(patience, RETRY_FOR))
        tries = 0
        while True:
            try:
                with self._lock, translated():
                    return work(self._connected(), tries > 0)
            except DatabaseUnavailable:
                if time.monotonic() > give_up:
                    raise
                time.sleep(retry_pause(tries))
                tries += 1

    def _connected(self) -> Connection[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._discard()
            self._connection = connect_sync(database_url(self.settings), "client")
        return self._connection

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _send(connection: Connection[tuple[Any, ...]], sending: Sending) -> Sequence[Receipt]:
    if sending.plain_one:
        connection.execute(query("enqueue_one"), sending.fields())
        return sending.receipts()
    if not sending.copies:
        answers = connection.execute(query("enqueue_many"), (sending.parameter(),)).fetchall()
        return sending.receipts(answers)
    with connection.transaction(), connection.cursor() as cursor:
        direct, *known = cursor.execute(query("bulk_start"), (sending.kinds,)).fetchone() or ()
        copier = Copier(*known)
        before, copying, after = ways_to_copy(direct=direct)
        for name in before:
            cursor.execute(query(name))
        with cursor.copy(query(copying)) as copy:
            for block in sending.blocks(copier):
                copy.write(block)
        for name in after:
            cursor.execute(query(name))
        if copier.queues:
            cursor.execute(query("open_lanes"), (copier.lanes,))
            cursor.execute(query("wake"), (copier.queues,))
        parameter = sending.parameter()
        if parameter is None:
            return sending.receipts()
        return sending.receipts(cursor.execute(query("enqueue_many"), (parameter,)).fetchall())
