"""Enqueue jobs and wait for them, for code without an event loop."""

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
from posthouse.client.erasing import erase_text, erasure_of
from posthouse.client.handle import Handles, SyncHandle, result_of
from posthouse.client.kinds import Kinds, refuse_unstorable
from posthouse.client.options import Options
from posthouse.core.duration import Duration, seconds
from posthouse.core.erasure import Erasure
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
    """A synchronous, thread-safe client that enqueues jobs and waits for their results.

    Use ``with SyncClient() as client:``, or call ``close()``. ``url`` is the URL of the Postgres database;
    the default comes from the settings. ``settings`` replaces the settings from the environment.
    """

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
        """Close the connection. The client opens a new one if it is used again."""
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
        """Enqueue one job and return its handle.

        The arguments are those of ``Client.enqueue``.
        """
        return self.submit(Request(kind=kind, payload=payload or {}, **options), connection=connection)

    def submit(self, request: Request, *, connection: Any = None) -> SyncHandle:
        """Enqueue one job from a ``Request`` and return its handle. ``connection`` is as for
        ``enqueue()``.
        """
        return SyncHandle(self, *only(self._send([request], connection), request))

    def enqueue_many(self, requests: Iterable[Request], *, connection: Any = None) -> Sequence[SyncHandle]:
        """Enqueue many jobs in one transaction: all of them or none.

        The arguments and the handles are those of ``Client.enqueue_many``.
        """
        return Handles(partial(SyncHandle, self), self._send(list(requests), connection))

    def emit(
        self,
        name: str,
        context: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EventOptions],
    ) -> UUID:
        """Emit an event, from which triggers create jobs. Return the id of the event.

        The arguments are those of ``Client.emit``.
        """
        event_id, text = event_text(name, context, options, self.settings.max_payload_bytes)
        if connection is None:
            self._run(lambda c, _: c.execute(query("emit"), (text,)))
        else:
            with translated():
                ask_on_sync(connection, "emit", text)
        return event_id

    def erase(
        self,
        subject: str,
        *,
        tenant: str = "default",
        actor: str = "",
        connection: Any = None,
    ) -> Erasure:
        """Erase all jobs and events of a subject.

        The arguments are those of ``Client.erase``.
        """
        text = erase_text(subject, tenant, actor)
        if connection is None:
            return erasure_of(self._run(lambda c, _: c.execute(query("erase"), (text,)).fetchall()))
        with translated():
            return erasure_of(ask_on_sync(connection, "erase", text))

    def wait(self, job_id: UUID, timeout: Duration | None = None) -> Any:
        """Wait until a job has finished and return its result.

        Raises JobFailed if the job did not succeed, JobNotFound if it does not exist, and WaitTimeout if it
        has not finished after ``timeout``.
        """
        limit = None if timeout is None else seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        pause = FIRST_PAUSE
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            row = self._run(lambda c, _: c.execute(query("job_ending"), (job_id,)).fetchone(), left)
            if row is None:
                raise JobNotFound(f"job {job_id} does not exist")
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
        """Return the requests after validation against the definitions of their kinds, which are cached for
        seconds.
        """
        unknown = self._kinds.unknown(requests)
        if unknown:
            self._learn(unknown, requests, connection)
            code = [request.code() for request in self._kinds.undefined(requests) if request.code]
            if code and connection is None:  # a caller's transaction is not made to hold locks on definitions
                announced = json.dumps(code)
                self._run(lambda c, _: c.execute(query("announce_missing"), (announced,)))
                self._learn(unknown, requests, None)
        return self._kinds.admitted(requests, self.settings.max_payload_bytes)

    def _learn(self, kinds: list[str], requests: Sequence[Request], connection: Any) -> None:
        """Read the definitions of these kinds."""
        asked = json.dumps(kinds)
        if connection is None:
            rows: Sequence[Any] = self._run(
                lambda c, _: c.execute(query("definition_rules"), (asked,)).fetchall()
            )
        else:
            refuse_unstorable(requests, self.settings.max_payload_bytes)
            with translated():
                rows = ask_on_sync(connection, "definition_rules", asked)
        self._kinds.learn(kinds, [row[0] for row in rows])

    def _run(
        self, work: Callable[[Connection[tuple[Any, ...]], bool], T], patience: float | None = None
    ) -> T:
        """Run the work. After a lost connection it runs again, with True as its argument."""
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
        for noted in copier.undefined:
            cursor.execute(query("undefined_note"), noted)
        if copier.queues:
            cursor.execute(query("open_lanes"), (copier.lanes,))
            cursor.execute(query("wake"), (copier.queues,))
        parameter = sending.parameter()
        if parameter is None:
            return sending.receipts()
        return sending.receipts(cursor.execute(query("enqueue_many"), (parameter,)).fetchall())
