"""Enqueue jobs and wait for them, for code without an event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, Unpack
from uuid import UUID

from psycopg import Connection

from posthouse import tracing
from posthouse.client.client import RETRY_SECONDS
from posthouse.client.connections import execute_on_sync
from posthouse.client.enqueue import (
    DefinitionCache,
    EnqueueBatch,
    EnqueueOutcome,
    EventOptions,
    Handles,
    Rows,
    Statement,
    duplicate_error,
    encode_erasure,
    encode_event,
    enqueue,
)
from posthouse.client.waiter import FIRST_PAUSE, MAX_PAUSE, result_of
from posthouse.core.duration import Duration, seconds
from posthouse.core.erasure import Erasure
from posthouse.core.request import EnqueueOptions, Request
from posthouse.errors import JobNotFound, WaitTimeout
from posthouse.settings import Settings, load_settings
from posthouse.storage.connections import connect_sync
from posthouse.storage.database import database_url
from posthouse.storage.errors import connection_error, translate_errors
from posthouse.storage.queries import query
from posthouse.waiting import Backoff


@dataclass(slots=True, eq=False)
class SyncHandle:
    """A handle of an enqueued job, for code without an event loop."""

    _client: SyncClient = field(repr=False)
    id: UUID
    outcome: EnqueueOutcome

    def wait(self, timeout: Duration | None = None) -> Any:
        """Wait until the job has finished and return its result.

        Raises JobFailed if the job did not succeed, and WaitTimeout if it has not finished after ``timeout``.
        """
        return self._client.wait(self.id, timeout)


class SyncClient:
    """A synchronous, thread-safe client that enqueues jobs and waits for their results.

    Use ``with SyncClient() as client:``, or call ``close()``. ``url`` is the URL of the Postgres database;
    the default comes from the settings. ``settings`` replaces the settings from the environment.
    """

    def __init__(self, url: str | None = None, *, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings(database_url=url)
        if self.settings.tracing:
            tracing.start_tracing()
        self._connection: Connection[tuple[Any, ...]] | None = None
        self._lock = threading.Lock()
        self._definitions = DefinitionCache()

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
        **options: Unpack[EnqueueOptions],
    ) -> SyncHandle:
        """Enqueue one job and return its handle.

        The arguments are those of ``Client.enqueue``.
        """
        return self.submit(Request(kind=kind, payload=payload or {}, **options), connection=connection)

    def submit(self, request: Request, *, connection: Any = None) -> SyncHandle:
        """Enqueue one job from a ``Request`` and return its handle.

        ``connection`` is as for ``enqueue()``.
        """
        handle = self._enqueue([request], connection)[0]
        if handle.outcome == "rejected":
            raise duplicate_error(request, handle.id)
        return handle

    def enqueue_many(self, requests: Iterable[Request], *, connection: Any = None) -> Sequence[SyncHandle]:
        """Enqueue many jobs in one transaction: all of them or none.

        The arguments and the handles are those of ``Client.enqueue_many``.
        """
        return self._enqueue(list(requests), connection)

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
        event_id, text = encode_event(name, context, options, self.settings.max_payload_bytes)
        self._execute(Statement("emit", (text,)), connection)
        return event_id

    def erase(
        self,
        subject: str,
        *,
        tenant: str = "default",
        actor: str = "",
        connection: Any = None,
    ) -> Erasure:
        """Erase the content of all jobs and events of a subject.

        The arguments are those of ``Client.erase``.
        """
        text = encode_erasure(subject, tenant, actor)
        (row,) = self._execute(Statement("erase", (text,)), connection)
        return Erasure(*row)

    def wait(self, job_id: UUID, timeout: Duration | None = None) -> Any:
        """Wait until a job has finished and return its result.

        Raises JobFailed if the job did not succeed, JobNotFound if it does not exist, and WaitTimeout if it
        has not finished after ``timeout``.
        """
        limit = None if timeout is None else seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        pause = FIRST_PAUSE
        ending = Statement("job_result", (job_id,))
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            row = next(iter(self._run(ending, left)), None)
            if row is None:
                raise JobNotFound(f"job {job_id} does not exist")
            if row[0] not in {"queued", "running"}:
                return result_of(job_id, *row)
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"job {job_id} was still {row[0]} after {limit:g} s")
            time.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE)

    def _enqueue(self, requests: Sequence[Request], connection: Any) -> Sequence[SyncHandle]:
        if not requests:
            return []
        span = nullcontext(requests) if tracing.traces is None else tracing.producing(requests)
        with span as traced:
            steps = enqueue(
                traced,
                self._definitions,
                self.settings.max_payload_bytes,
                partial(SyncHandle, self),
                own_transaction=connection is None,
            )
            try:
                step = next(steps)
                while True:
                    step = steps.send(self._execute(step, connection))
            except StopIteration as finished:
                handles: Handles[SyncHandle] = finished.value
                return handles

    def _execute(self, step: Statement | EnqueueBatch, connection: Any) -> Rows:
        """Run a step on the caller's connection or, with retries, on the client's connection."""
        if connection is None:
            return self._run(step)
        assert isinstance(step, Statement)
        with translate_errors():
            return execute_on_sync(connection, step.name, *step.parameters)

    def _run(self, step: Statement | EnqueueBatch, timeout: float | None = None) -> Rows:
        """Run a step. After a lost connection it runs again."""
        give_up = time.monotonic() + (RETRY_SECONDS if timeout is None else min(timeout, RETRY_SECONDS))
        backoff: Backoff | None = None
        while True:
            try:
                with self._lock:
                    return _run_step(step, self._connected(), is_retry=backoff is not None)
            except Exception as error:
                lost = connection_error(error)
                if time.monotonic() > give_up:
                    raise lost from error
                backoff = backoff or Backoff()
                time.sleep(backoff.next())

    def _connected(self) -> Connection[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._discard()
            self._connection = connect_sync(database_url(self.settings), "client")
        return self._connection

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _run_step(
    step: Statement | EnqueueBatch, connection: Connection[tuple[Any, ...]], *, is_retry: bool
) -> Rows:
    plan = step if isinstance(step, Statement) else step.plan(is_retry=is_retry)
    if isinstance(plan, Statement):
        cursor = connection.execute(query(plan.name), plan.parameters)
        return cursor.fetchall() if cursor.description else ()
    with connection.transaction():
        try:
            statement = next(plan)
            while True:
                statement = plan.send(_run_statement(statement, connection))
        except StopIteration as finished:
            rows: Rows = finished.value
            return rows


def _run_statement(statement: Statement, connection: Connection[tuple[Any, ...]]) -> Rows:
    if statement.blocks is None:
        return _run_step(statement, connection, is_retry=False)
    with connection.cursor() as cursor, cursor.copy(query(statement.name)) as copy:
        for block in statement.blocks:
            copy.write(block)
    return ()
