"""Test helpers: run a handler inline, run all queued jobs, inspect the queue, and move the clock.

All helpers except ``run()`` use a real Postgres. ``database()`` creates a migrated database for each test.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from posthouse.core.duration import Duration, seconds
from posthouse.core.ids import new_id
from posthouse.core.progress import decode_kept
from posthouse.errors import WaitTimeout
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings, load_settings
from posthouse.storage.claimed import ClaimedJob, encode_time
from posthouse.storage.connections import HandlerPools
from posthouse.storage.database import admin_url, database_url
from posthouse.storage.migrations import migrate
from posthouse.storage.queries import query
from posthouse.storage.schema import schema_digest
from posthouse.worker.attempt import Attempt
from posthouse.worker.job import Job
from posthouse.worker.services import JobLimits, JobServices

if TYPE_CHECKING:
    from posthouse.app import App, JobType
    from posthouse.worker.worker import Worker

__all__ = ["Clock", "assert_enqueued", "clock", "database", "drain", "enqueued", "run", "using"]

TEMPLATE_PREFIX = f"posthouse_template_{schema_digest()[:8]}_"
"""Contains a hash of the schema, so that a template from another version is never reused."""


@contextmanager
def database(server: str | None = None) -> Iterator[str]:
    """Create a migrated database, yield its URL, and drop the database at the end of the block.

    ``server`` is the URL of a Postgres server on which the user may create databases. Default: the configured
    database, or the embedded Postgres if none is configured.
    """
    admin = server or _server_url(load_settings())
    name = f"posthouse_test_{uuid4().hex[:12]}"
    with psycopg.connect(admin, autocommit=True) as connection:
        _copy_template(connection, admin, name)
    try:
        yield _other_database(admin, name)
    finally:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
            )


def _server_url(settings: Settings) -> str:
    """Return the URL of the server.

    For the embedded server it is that of the superuser, so that tests can create extensions.
    """
    url = database_url(settings)
    return admin_url(settings, url) or url


@asynccontextmanager
async def using(app: App, settings: Settings | str) -> AsyncIterator[App]:
    """Run the app with other settings, or on another database, for the duration of the block.

    ``settings`` is a ``Settings`` object or a database URL.
    """
    before = app.__dict__.pop("settings", None)
    app.__dict__["settings"] = load_settings(database_url=settings) if isinstance(settings, str) else settings
    try:
        yield app
    finally:
        await app.close()
        del app.__dict__["settings"]
        if before is not None:
            app.__dict__["settings"] = before


def _other_database(server: str, name: str) -> str:
    """Return the URL of another database on the same server.

    A URL is returned as a URL, because SQLAlchemy and asyncpg do not accept a conninfo string.
    """
    if "://" not in server:
        return make_conninfo(server, dbname=name)
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def _copy_template(connection: psycopg.Connection[Any], admin: str, name: str) -> None:
    template = _template_of_today()
    strategy = _strategies.get((admin, template))
    if strategy is not None:
        with suppress(psycopg.errors.InvalidCatalogName):  # the template was dropped
            connection.execute(_copy(name, template, strategy))
            return
    _ensure_template(connection, admin, template)
    synced = connection.execute("show fsync").fetchone() == ("on",)
    strategy = _strategies[admin, template] = "wal_log" if synced else "file_copy"
    connection.execute(_copy(name, template, strategy))


def _template_of_today() -> str:
    """Return the name of the current day's template.

    It changes daily, because migrating creates the partitions of the days that follow.
    """
    return f"{TEMPLATE_PREFIX}{datetime.now(UTC):%Y%m%d}"


def _copy(name: str, template: str, strategy: str) -> sql.Composed:
    return sql.SQL("create database {} template {} strategy {}").format(
        sql.Identifier(name), sql.Identifier(template), sql.SQL(strategy)
    )


_strategies: dict[tuple[str, str], str] = {}
"""The copy strategy for each server and template that is known to exist; checking takes longer than a copy.

Copying files takes 50 ms, writing them through the WAL 100 to 400 ms, unless every file must be synced.
"""


def _ensure_template(connection: psycopg.Connection[Any], admin: str, name: str) -> None:
    """Create or update the template database. Copying it is much faster than running the migrations."""
    connection.execute("select pg_advisory_lock(7704, 1)")
    try:
        found = connection.execute("select from pg_database where datname = %s", (name,)).fetchone()
        if found is None:
            _drop_templates(connection)
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        with psycopg.connect(make_conninfo(admin, dbname=name), autocommit=True) as template:
            migrate(template)
    finally:
        connection.execute("select pg_advisory_unlock(7704, 1)")


def _drop_templates(connection: psycopg.Connection[Any]) -> None:
    """Drop the templates of earlier days. A template that is being copied stays until the next day."""
    rows = connection.execute(
        "select datname from pg_database where starts_with(datname, %s)", (TEMPLATE_PREFIX,)
    ).fetchall()
    for (name,) in rows:
        with suppress(psycopg.errors.ObjectInUse):
            connection.execute(sql.SQL("drop database if exists {}").format(sql.Identifier(name)))


class Clock:
    """The clock of a database. Schedules, retries and leases in that database follow it."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self._offset = 0.0

    async def advance(self, by: Duration) -> None:
        """Move the clock forward by a duration."""
        self._offset += seconds(by)
        await self._set()

    async def move_to(self, moment: datetime) -> None:
        """Set the clock to a moment; it continues from there."""
        self._offset += (moment - await self.now()).total_seconds()
        await self._set()

    async def now(self) -> datetime:
        """Return the current time of the clock."""
        cursor = await self._connection.execute("select posthouse.now()")
        row = await cursor.fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]

    async def _set(self) -> None:
        body = sql.SQL("select clock_timestamp() + {}").format(sql.Literal(timedelta(seconds=self._offset)))
        await self._connection.execute(
            sql.SQL(
                "create or replace function posthouse.now() returns timestamptz "
                "language sql volatile parallel safe as {}"
            ).format(sql.Literal(body.as_string(self._connection)))
        )

    async def reset(self) -> None:
        """Set the clock back to the real time."""
        self._offset = 0.0
        await self._connection.execute(
            "create or replace function posthouse.now() returns timestamptz "
            "language sql volatile parallel safe as 'select clock_timestamp()'"
        )


@asynccontextmanager
async def clock(app: App) -> AsyncIterator[Clock]:
    """Yield the ``Clock`` of the app's database, and reset it at the end of the block.

    ``await clock.advance("1h")``, ``await clock.move_to(moment)`` and ``await clock.now()``. Schedules,
    retries and leases in that database follow it.
    """
    async with await _connection(app) as connection:
        moved = Clock(connection)
        try:
            yield moved
        finally:
            await moved.reset()


async def run(job_type: JobType[Any, Any], *, attempt: int = 1, **arguments: Any) -> Any:
    """Call a handler as a worker would, but without a database.

    Returns what the handler returns and raises what it raises. ``attempt`` is the attempt number that the
    handler sees; ``arguments`` are the fields of the payload.
    """
    definition = job_type.definition
    definition.arguments.check(arguments)
    request = job_type.request(arguments)
    text = request.to_json(new_id(), verify=False, payload_limit=2**31)
    payload = text[text.index('"payload":') + len('"payload":') : -1]
    job = _inline_job(job_type, payload, attempt)
    values = definition.arguments.read(payload)
    if definition.batch is not None:
        result = definition.handler([job])
    elif definition.arguments.takes_job:
        result = definition.handler(job, **values)
    else:
        result = definition.handler(**values)
    result = await result if inspect.isawaitable(result) else result
    return result[0] if definition.batch is not None and result is not None else result


def _inline_job(job_type: JobType[Any, Any], payload: str, attempt: int) -> Job:
    definition = job_type.definition
    now = encode_time(datetime.now(UTC))
    row = ClaimedJob(
        id=new_id().bytes, kind=definition.kind, queue=definition.queue, tenant_id="default",
        payload=payload, attempt=attempt, max_attempts=definition.max_attempts, priority=definition.priority,
        lane=0, position=0, crashes=0, snoozes=0, generation=1, timeout_seconds=definition.timeout,
        retry=None, correlation_id=None, subject=None, parent_id=None, queued_at=now, scheduled_for=now,
        started_at=now, attempt_started_at=now, last_error=None, trace=None,
    )  # fmt: skip
    token = uuid4()
    return Job(Attempt(row, token, token.hex, time.monotonic(), InlineJobServices()))


class InlineJobServices(JobServices):
    """The services of a job that is run inline.

    Progress reports and logs are discarded; steps and parts are kept in memory until the handler returns.
    """

    def __init__(self) -> None:
        limits = JobLimits(2**31, 2**31, log_level=10**6, lease_seconds=0.0)  # discard all log records
        super().__init__(asyncio.get_running_loop(), limits, HandlerPools(None))
        self._steps: dict[str, str] = {}
        self._parts: dict[str, dict[str, Any]] = {}

    async def report_progress(
        self, attempt: Attempt, percent: float | None, step: str | None, message: str | None
    ) -> None:
        del attempt, percent, step, message

    async def report_part(self, attempt: Attempt, change: Mapping[str, Any]) -> None:
        del attempt
        part = self._parts.setdefault(change["name"], {**NEW_PART})
        part.update({name: value for name, value in change.items() if value is not None})

    async def declare_parts(
        self, attempt: Attempt, declarations: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        for declaration in declarations:
            await self.report_part(attempt, declaration)
        return list(self._parts.values())

    async def steps_done(self, attempt: Attempt) -> list[str]:
        del attempt
        return list(self._steps)

    async def find_step(self, attempt: Attempt, name: str) -> tuple[bool, Any]:
        del attempt
        return name in self._steps, decode_kept(self._steps.get(name))

    async def save_step(self, attempt: Attempt, name: str, result: str, seconds: float) -> None:
        del attempt, seconds
        self._steps[name] = result

    async def flush(self, attempt: Attempt) -> None: ...

    async def send_request(self, method: str, attempt: Attempt, *arguments: Any) -> Any:
        del method, arguments
        raise self._no_database(attempt)

    def send_notice(self, method: str, attempt: Attempt, *arguments: Any) -> None: ...

    def get_pools(self, attempt: Attempt) -> HandlerPools:
        raise self._no_database(attempt)

    def _no_database(self, attempt: Attempt) -> RuntimeError:
        return RuntimeError(
            f"{attempt.row.kind} uses the database or artifacts, which testing.run() does not provide: "
            "enqueue the job and use testing.drain()"
        )


NEW_PART = {
    "status": "pending", "percent": 0.0, "done": None, "total": None, "weight": 1.0, "message": None,
    "result": None,
}  # fmt: skip


async def drain(app: App, *, queues: tuple[str, ...] = (), timeout: Duration = "30s") -> Counter[str]:
    """Run all jobs that can run now on a real worker and return the number of finished jobs per status.

    Scheduled jobs whose time has not come stay queued: move the clock and call ``drain()`` again. Jobs of
    kinds that this app does not define stay queued as well. Raises WaitTimeout if jobs are still running
    after ``timeout``.
    """
    worker = await app.worker(queues=queues, poll_seconds=0.05, batch_linger_seconds=0.0)
    url = await asyncio.to_thread(database_url, app.settings)
    keeper = Keeper(url, app.settings)
    async with await _connection(app) as connection:
        before = await _ended(connection)
        await worker.start()
        try:
            await asyncio.wait_for(_until_idle(connection, keeper, worker), seconds(timeout))
        except TimeoutError:
            raise WaitTimeout(f"jobs were still running after {timeout}") from None
        finally:
            await worker.stop(0)
            await keeper.stop()
        return await _ended(connection) - before


async def _until_idle(connection: AsyncConnection[Any], keeper: Keeper, worker: Worker) -> None:
    while True:
        await keeper.scheduler.run_once()
        await keeper.promoter.run_once()
        served = {"queues": worker.queues, "kinds": list(worker.definitions)}
        cursor = await connection.execute(query("testing_active"), served)
        row = await cursor.fetchone()
        if row is not None and row[0] == 0:
            return
        await asyncio.sleep(0.01)


async def _ended(connection: AsyncConnection[Any]) -> Counter[str]:
    cursor = await connection.execute(query("testing_ended"))
    return Counter(dict(await cursor.fetchall()))


async def enqueued(app: App, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the queued jobs, oldest first, as rows of ``posthouse.jobs``; with ``kind``, only that kind."""
    async with (
        await _connection(app) as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        await cursor.execute(query("testing_queued"), {"kind": kind})
        return await cursor.fetchall()


async def assert_enqueued(
    app: App, kind: str, payload: Mapping[str, Any] | None = None, **columns: Any
) -> UUID:
    """Assert that a matching job is queued, and return its id.

    A job matches if it has this ``kind``, its payload contains the items of ``payload``, and its row in
    ``posthouse.jobs`` has the values of ``columns``.
    """
    jobs = await enqueued(app, kind)
    for job in jobs:
        wanted = (payload or {}).items() <= job["payload"].items()
        if wanted and all(job[name] == value for name, value in columns.items()):
            return job["id"]  # type: ignore[no-any-return]
    seen = [job["payload"] for job in jobs] or "none"
    raise AssertionError(
        f"no queued {kind} job matches {dict(payload or {})} {columns or ''}; queued payloads: {seen}"
    )


async def _connection(app: App) -> AsyncConnection[Any]:
    url = await asyncio.to_thread(database_url, app.settings)
    return await AsyncConnection.connect(url, autocommit=True)
