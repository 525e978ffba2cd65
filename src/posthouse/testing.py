"""For your tests: run a job inline, drain a queue, see what was enqueued, move the clock.

Everything runs on a real Postgres. ``database()`` gives each test a migrated one of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime, timedelta
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
from posthouse.core.request import Request
from posthouse.errors import WaitTimeout
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings, load_settings
from posthouse.storage.migrate import migrate, migrations
from posthouse.storage.queries import query
from posthouse.storage.server import database_url
from posthouse.worker.job import Job

if TYPE_CHECKING:
    from posthouse.app import App, JobType
    from posthouse.worker.commit import Commit, Plain, StepCommit
    from posthouse.worker.worker import Worker

__all__ = ["Clock", "assert_enqueued", "clock", "database", "drain", "enqueued", "run", "using"]

_texts = "".join(migration.text for migration in migrations())
TEMPLATE = f"posthouse_template_{hashlib.sha256(_texts.encode()).hexdigest()[:8]}"
"""Named after what is in it: a template left behind by another version is not taken for ours."""


@contextmanager
def database(server: str | None = None) -> Iterator[str]:
    """The URL of a fresh, migrated database that is dropped afterwards.

    ``server`` is any URL of a Postgres where you may create databases; without it the settings decide,
    which means the embedded one if they name none.
    """
    admin = server or database_url(load_settings())
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


@asynccontextmanager
async def using(app: App, settings: Settings | str) -> AsyncIterator[App]:
    """The app with other settings for the length of the block, or just on another database."""
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
    """The same server, another database. A URL stays one: SQLAlchemy and asyncpg take nothing else."""
    if "://" not in server:
        return make_conninfo(server, dbname=name)
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def _copy_template(connection: psycopg.Connection[Any], admin: str, name: str) -> None:
    if admin in _strategies:
        with suppress(psycopg.errors.InvalidCatalogName):  # somebody dropped it
            connection.execute(_copy(name, _strategies[admin]))
            return
    _ensure_template(connection, admin)
    synced = connection.execute("show fsync").fetchone() == ("on",)
    _strategies[admin] = "wal_log" if synced else "file_copy"
    connection.execute(_copy(name, _strategies[admin]))


def _copy(name: str, strategy: str) -> sql.Composed:
    return sql.SQL("create database {} template {} strategy {}").format(
        sql.Identifier(name), sql.Identifier(TEMPLATE), sql.SQL(strategy)
    )


_strategies: dict[str, str] = {}
"""How to copy, by server. Those in here are known to have the template: asking takes longer than a copy.
Files are copied in 50 ms where writing them through the log takes 100 to 400, unless each must be synced."""


def _ensure_template(connection: psycopg.Connection[Any], admin: str) -> None:
    """Copying a migrated database takes a fraction of the time that migrating one does."""
    connection.execute("select pg_advisory_lock(7704, 1)")
    try:
        found = connection.execute("select from pg_database where datname = %s", (TEMPLATE,)).fetchone()
        if found is None:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(TEMPLATE)))
        with psycopg.connect(make_conninfo(admin, dbname=TEMPLATE), autocommit=True) as template:
            migrate(template)
    finally:
        connection.execute("select pg_advisory_unlock(7704, 1)")


class Clock:
    """The database's clock, moved. Everything in that database sees it: schedules, retries, leases."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self._offset = 0.0

    async def advance(self, by: Duration) -> None:
        self._offset += seconds(by)
        await self._set()

    async def move_to(self, moment: datetime) -> None:
        """Set it to a moment, from where it goes on."""
        self._offset += (moment - await self.now()).total_seconds()
        await self._set()

    async def now(self) -> datetime:
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
        self._offset = 0.0
        await self._connection.execute(
            "create or replace function posthouse.now() returns timestamptz "
            "language sql volatile parallel safe as 'select clock_timestamp()'"
        )


@asynccontextmanager
async def clock(app: App) -> AsyncIterator[Clock]:
    """Move the clock of the app's database; it is put right afterwards."""
    async with await _connection(app) as connection:
        moved = Clock(connection)
        try:
            yield moved
        finally:
            await moved.reset()


async def run(job_type: JobType[Any, Any], *, attempt: int = 1, **arguments: Any) -> Any:
    """Call a handler as a worker would, without a database: returns or raises what the handler does."""
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
    zero = (0).to_bytes(8, "big")
    row = (
        new_id().bytes, definition.kind, definition.queue, "default", payload, attempt,
        definition.max_attempts, definition.priority, 0, 0, 0, 0, 1, definition.timeout, None, None, None,
        None, zero, zero, zero, zero, None, None,
    )  # fmt: skip
    token = uuid4()
    return Job(row, token, token.hex, 0.0, _InlineDesk())


class _InlineDesk:
    """Stands in for the worker when a handler is run inline: reports go nowhere, steps and parts are kept
    until it ends.
    """

    payload_limit = 2**31
    result_limit = 2**31
    log_level = 10**6  # nothing is kept of what it logs

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._steps: dict[str, str] = {}
        self._parts: dict[str, dict[str, Any]] = {}

    async def report_progress(
        self, job: Job, percent: float | None, step: str | None, message: str | None
    ) -> None:
        del job, percent, step, message

    async def report_part(self, job: Job, change: Mapping[str, Any]) -> None:
        del job
        known = self._parts.setdefault(change["name"], {**NEW_PART})
        known.update({name: value for name, value in change.items() if value is not None})

    async def declare_parts(
        self, job: Job, declarations: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        for declaration in declarations:
            await self.report_part(job, declaration)
        return list(self._parts.values())

    async def steps_done(self, job: Job) -> list[str]:
        del job
        return list(self._steps)

    async def find_step(self, job: Job, name: str) -> tuple[bool, Any]:
        del job
        return name in self._steps, decode_kept(self._steps.get(name))

    async def keep_step(self, job: Job, name: str, result: str, seconds: float) -> None:
        del job, seconds
        self._steps[name] = result

    def note_step(self, job: Job, name: str) -> None: ...

    async def upload(self, job: Job, name: str, path: str) -> dict[str, Any]:
        del name, path
        raise self._no_database(job)

    async def download(self, job: Job, name: str, path: str, of: str | None) -> dict[str, Any]:
        del name, path, of
        raise self._no_database(job)

    async def land(self, job: Job) -> None: ...

    def emit(self, job: Job, stream: str, level: str | None, text: str) -> None: ...

    def admitted(self, request: Request) -> Request:
        return request

    def operators_marks(self, kind: str) -> None:
        del kind

    def begin(self, job: Job) -> Plain:
        raise self._no_database(job)

    def begin_commit(self, job: Job) -> Commit:
        raise self._no_database(job)

    def begin_step(self, job: Job, name: str) -> StepCommit:
        del name
        raise self._no_database(job)

    def _no_database(self, job: Job) -> RuntimeError:
        return RuntimeError(
            f"{job.kind} uses the database, or keeps files: "
            "enqueue it and use testing.drain(), which has a database"
        )


NEW_PART = {
    "status": "pending", "percent": 0.0, "done": None, "total": None, "weight": 1.0, "message": None,
    "result": None,
}  # fmt: skip


async def drain(app: App, *, queues: tuple[str, ...] = (), timeout: Duration = "30s") -> Counter[str]:
    """Run everything that can run now, with a real worker; returns how many jobs ended in each status.

    Jobs that are due later stay: move the clock and drain again. So do jobs that this app has no handler for.
    """
    worker = await app.worker(queues=queues, poll_seconds=0.05)
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
    """The jobs that are queued, oldest first, as rows of posthouse.jobs."""
    async with (
        await _connection(app) as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        await cursor.execute(query("testing_queued"), {"kind": kind})
        return await cursor.fetchall()


async def assert_enqueued(
    app: App, kind: str, payload: Mapping[str, Any] | None = None, **columns: Any
) -> UUID:
    """Assert that such a job is queued: its payload has these items, its row these values. Returns its id."""
    jobs = await enqueued(app, kind)
    for job in jobs:
        wanted = (payload or {}).items() <= job["payload"].items()
        if wanted and all(job[name] == value for name, value in columns.items()):
            return job["id"]  # type: ignore[no-any-return]
    seen = [job["payload"] for job in jobs] or "none at all"
    raise AssertionError(f"no {kind} job with {dict(payload or {})} {columns or ''} is queued, but {seen}")


async def _connection(app: App) -> AsyncConnection[Any]:
    url = await asyncio.to_thread(database_url, app.settings)
    return await AsyncConnection.connect(url, autocommit=True)
