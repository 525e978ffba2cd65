"""The application: job definitions, and how to enqueue and run their jobs."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar, Unpack, cast
from uuid import UUID

from pydantic import ValidationError

from posthouse.client.client import Client, Handle
from posthouse.client.sync import SyncClient, SyncHandle
from posthouse.core.duration import Duration, seconds
from posthouse.core.limit import Limit, text_at
from posthouse.core.outcome import Policy
from posthouse.core.request import EnqueueOptions, Request, priority_number
from posthouse.core.retry import DEFAULT_RETRY, Retry
from posthouse.core.schedule import Fold, Gap, Missed
from posthouse.errors import ConfigurationError, DatabaseRequired, PosthouseError
from posthouse.settings import Settings, Variable, load_settings
from posthouse.storage.connections import connect_sync
from posthouse.storage.database import admin_url, checked_database_url, database_url, retry_startup
from posthouse.storage.errors import translate_errors
from posthouse.storage.migrations import apply_app_schema, create_extensions, extensions_in, migrate
from posthouse.worker.backend import Backend
from posthouse.worker.handlers import MAX_BATCH, PROCESS, RUNNERS, HandlerArguments, JobDefinition
from posthouse.worker.observers import enable_worker_tracing
from posthouse.worker.postgres import PostgresBackend
from posthouse.worker.shutdown import ShutdownSignals, run_event_loop

if TYPE_CHECKING:
    from posthouse.worker.status import SharedStatus
    from posthouse.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

Runner: TypeAlias = Literal["auto", "process"]
Overlap: TypeAlias = Literal["allow", "skip", "queue"]

Channel: TypeAlias = Callable[[str, Mapping[str, Any]], str | None]

DEFAULT_TIMEOUT = "1h"
RESERVED_KIND_PREFIX = "posthouse."


class App:
    """An application: a set of job definitions and the database that their jobs are stored in.

    - ``database_url``: URL of the Postgres database. Default: the setting ``database_url``; without it, an
      embedded Postgres is started.
    - ``settings``: settings to use instead of those from the environment and the configuration file.
    - ``schema``: path of an SQL file that creates the application's own tables. `posthouse up` and `posthouse
      migrate` with ``--app`` run it whenever the file has changed, so its statements must be safe to run
      again (``create table if not exists``).
    - ``routes``: a FastAPI router as ``module:name``. `posthouse up` and `posthouse server` serve it beside
      the API.
    - ``variables``: environment variables of the application that also set a setting of Posthouse, such as
      ``{"SHOP_ALERTS": "alert_webhook_url", "SHOP_LEASE_MINUTES": ("lease_seconds", 60)}``. The number
      converts a unit to seconds. POSTHOUSE_ variables take precedence.
    - ``channel``: a function that names a second Redis Pub/Sub channel for a live update, or returns None.
      It is called with ``"progress"`` or ``"complete"`` and the job as the event stream shows it.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        schema: str | Path | None = None,
        routes: str | None = None,
        variables: Mapping[str, Variable] | None = None,
        channel: Channel | None = None,
    ) -> None:
        self._given_settings = settings
        self._given_url = database_url
        self.schema = None if schema is None else Path(schema)
        self.routes = routes
        self.variables = dict(variables or {})
        self.channel = channel
        self.definitions: dict[str, JobDefinition] = {}
        self._client: Client | None = None
        self._client_loop: asyncio.AbstractEventLoop | None = None

    @functools.cached_property
    def settings(self) -> Settings:
        """Return the app's settings, loaded on first use."""
        return self._given_settings or load_settings(database_url=self._given_url, variables=self.variables)

    @property
    def client(self) -> Client:
        """Return the client of the running event loop. Connections belong to the loop that opened them."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client_loop is not loop:
            self._require_database()
            self._client, self._client_loop = Client(settings=self.settings), loop
        return self._client

    @functools.cached_property
    def sync_client(self) -> SyncClient:
        self._require_database()
        return SyncClient(settings=self.settings)

    def _require_database(self) -> None:
        if self.settings.remote_url:
            raise DatabaseRequired(
                "this process is a remote worker and has no database to enqueue into: "
                "add follow-ups with job.enqueue(), or use the HTTP API"
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that were opened to enqueue jobs."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if "sync_client" in self.__dict__:
            await asyncio.to_thread(self.__dict__.pop("sync_client").close)

    def database_url(self) -> str:
        """Return the URL of the app's database, for connections of your own.

        If no URL is configured, this starts the embedded Postgres, which then runs until the process ends.
        """
        self._require_database()
        return database_url(self.settings)

    def migrate(self) -> None:
        """Migrate the database to the current schema.

        The app's own ``schema`` file is applied too, if the app has one.
        """
        url = database_url(self.settings)
        with translate_errors(), connect_sync(url, "migrate") as connection:
            migrate(connection)
            if self.schema is not None:
                name, text = f"{self.schema.parent.name}/{self.schema.name}", self.schema.read_text()
                self._create_extensions(url, text)
                apply_app_schema(connection, name, text)

    def _create_extensions(self, url: str, text: str) -> None:
        """Create the extensions that the app's SQL needs, if the database is the embedded Postgres.

        They are created as its superuser.
        """
        extensions = extensions_in(text)
        admin = admin_url(self.settings, url) if extensions else None
        if admin is not None:
            with connect_sync(admin, "migrate") as connection:
                create_extensions(connection, extensions)

    def job(
        self,
        kind: str | None = None,
        *,
        queue: str = "default",
        priority: int | str = "normal",
        timeout: Duration | None = DEFAULT_TIMEOUT,
        retry: Retry = DEFAULT_RETRY,
        max_attempts: int | None = None,
        fail_on: Sequence[type[BaseException]] = (),
        batch: int | None = None,
        batches: int | None = None,
        takes: type[Any] | None = None,
        runner: Runner = "auto",
        memory_mb: int | None = None,
        keep_steps: bool = True,
        keep_progress: bool = True,
        limits: Sequence[Limit] = (),
        limit_by: str | None = None,
        requires: Sequence[str] = (),
        prefers: Sequence[str] = (),
        followup_queues: Sequence[str] = (),
        redact: Sequence[str] = (),
        active: bool = True,
        remote: bool = True,
        aliases: Sequence[str] = (),
    ) -> Callable[[Callable[P, R]], JobType[P, R]]:
        """Register a function as the handler of a job kind.

        An ``async def`` handler runs in the worker's event loop, a ``def`` handler in a thread. The arguments
        of the function are the fields of the job's payload; they are validated against its type annotations.

        - ``kind``: name of the job kind. Default: the name of the function.
        - ``queue``, ``priority``: queue and priority of its jobs, unless the enqueue sets others.
        - ``timeout``: maximum duration of an attempt; None for no timeout.
        - ``retry``: the policy that decides when a failed attempt is retried.
        - ``max_attempts``: maximum number of attempts. Default: as many as ``retry`` allows.
        - ``fail_on``: exception types that fail the job at once, without a retry.
        - ``batch``: with ``batch=N`` the handler receives a list of up to N jobs and returns a list with one
          result per job. N is at most 500. A batch starts when N jobs are ready, or when no further job
          has become ready for a short time (setting ``batch_linger_seconds``).
        - ``batches``: maximum number of batches of this kind that a worker runs at once. Default: as many as
          it has slots. Requires ``batch``.
        - ``takes``: type of the payloads of a batch handler, used to validate them.
        - ``runner``: ``"auto"``, or ``"process"`` to run the handler in a separate process.
        - ``memory_mb``: memory limit of that process in MB. Requires ``runner="process"``.
        - ``keep_steps``, ``keep_progress``: whether a retry keeps the finished steps, and the progress and
          parts, of earlier attempts.
        - ``limits``: concurrency and rate limits (see ``Limit``).
        - ``limit_by``: path of the payload field that is the key for limits ``per="key"``, such as
          ``user.id``. The enqueue option ``limit_key`` overrides it.
        - ``requires``: capabilities that a worker must have to run the job.
        - ``prefers``: capabilities that a worker should have. Other workers leave the job to such a worker
          for a short time.
        - ``followup_queues``: queues outside the scope of a remote worker's key that its follow-up
          jobs may go to.
        - ``redact``: paths of payload fields that are masked wherever payloads are shown, such as
          ``user.iban``.
        - ``aliases``: earlier names of the kind; jobs enqueued under them run too.
        - ``active``: with False, no jobs are accepted until an operator activates the definition.
        - ``remote``: with False, the job runs only on workers that are connected to the database. Handlers
          that use ``job.commit()``, ``job.step_commit()`` or ``job.transaction()`` need it.
        """

        def register(handler: Callable[P, R]) -> JobType[P, R]:
            name = kind or handler.__name__
            former = _validate_names(name, "aliases", aliases)
            for given in (name, *former):
                if given in self.definitions or [name, *former].count(given) > 1:
                    raise ConfigurationError(f"the job kind {given!r} is defined twice")
                if given.startswith(RESERVED_KIND_PREFIX):
                    raise ConfigurationError(
                        f"{given!r}: kinds that start with {RESERVED_KIND_PREFIX!r} are reserved"
                    )
            _check_batch(name, batch, batches)
            if runner not in RUNNERS:
                raise ConfigurationError(
                    f"{name}: runner must be one of {', '.join(RUNNERS)}, not {runner!r}"
                )
            if memory_mb is not None and (runner != PROCESS or memory_mb < 1):
                raise ConfigurationError(
                    f'{name}: memory_mb must be at least 1 and requires runner="process"'
                )
            attempts = retry.attempts if max_attempts is None else max_attempts
            if attempts < 1:
                raise ConfigurationError(f"{name}: max_attempts must be at least 1")
            self.definitions[name] = JobDefinition(
                kind=name,
                handler=handler,
                queue=queue,
                priority=priority_number(priority),
                max_attempts=attempts,
                timeout=None if timeout is None else seconds(timeout),
                policy=Policy(retry, tuple(fail_on)),
                batch=batch,
                batches=batches,
                arguments=HandlerArguments(name, handler, batch=batch is not None, takes=takes),
                is_async=inspect.iscoroutinefunction(handler),
                runner=runner,
                memory_mb=memory_mb,
                keep_steps=keep_steps,
                keep_progress=keep_progress,
                limits=tuple(limits),
                limit_by=limit_by,
                requires=_validate_names(name, "requires", requires),
                prefers=_validate_names(name, "prefers", prefers),
                followup_queues=_validate_names(name, "followup_queues", followup_queues),
                redact=_validate_names(name, "redact", redact),
                active=active,
                remote=remote,
            )
            for alias in former:  # triggers and limits stay with the current name
                self.definitions[alias] = dataclasses.replace(
                    self.definitions[name], kind=alias, limits=(), triggers=[]
                )
            return JobType(self, self.definitions[name], handler, {})

        return register

    async def worker(
        self, *, queues: Sequence[str] = (), status: SharedStatus | None = None, **settings: Any
    ) -> Worker:
        """Create a worker for the app's jobs without starting it.

        ``queues`` names the queues to work on; by default the worker takes all queues of its kinds.
        ``status`` is for a supervisor. Further keyword arguments override settings.
        """
        from posthouse.worker.worker import Worker  # noqa: PLC0415 - not needed by processes that only enqueue

        chosen = dataclasses.replace(self.settings, **settings)
        if chosen.tracing:
            enable_worker_tracing()
        if chosen.remote_url:
            anywhere = {kind: item for kind, item in self.definitions.items() if item.remote}
            return Worker(anywhere, _remote(chosen), chosen, queues=queues, status=status)
        url = await retry_startup(
            "connect to Postgres", lambda: asyncio.to_thread(checked_database_url, chosen)
        )
        return Worker(
            self.definitions,
            lambda worker_id: PostgresBackend(url, worker_id, chosen),
            chosen,
            queues=queues,
            status=status,
        )

    async def work(
        self,
        *,
        queues: Sequence[str] = (),
        keeper: bool = True,
        ready: Callable[[Worker], None] | None = None,
    ) -> None:
        """Run jobs until SIGTERM or SIGINT, then drain: finish the running jobs and stop.

        A second signal stops the drain and releases the jobs that are still running. Operators can also drain
        the worker with `posthouse workers drain`.

        - ``queues``: queues to work on. Default: all queues of the app's kinds.
        - ``keeper``: whether to run the keeper (schedules, retries, clean-up) in this process too.
        - ``ready``: called with the worker after it has started.
        """
        from posthouse.maintenance import Maintenance  # noqa: PLC0415 - not needed by processes that only enqueue

        stop = ShutdownSignals(asyncio.get_running_loop(), lambda: self.settings.drain_seconds)
        worker = await stop.wait_unless_stopped(self.worker(queues=queues))
        maintenance = None
        if keeper and not self.settings.remote_url:
            url = await asyncio.to_thread(database_url, self.settings)
            maintenance = Maintenance(url, self.settings)
        await stop.wait_unless_stopped(worker.start())
        if maintenance is not None:
            await maintenance.start()
        if ready is not None:
            ready(worker)
        await stop.wait(worker.failed, worker.drained)
        draining = asyncio.ensure_future(worker.stop())
        await stop.wait_for_drain(draining, worker.release_jobs)
        if maintenance is not None:
            await maintenance.stop()
        await self.close()
        if worker.failed.is_set():
            raise PosthouseError("the worker stopped because of an internal error; see the log for details")

    def run_worker(self, *, queues: Sequence[str] = (), keeper: bool = True) -> None:
        """Run a worker in this process until a signal stops it: ``work()`` with an event loop of its own.

        The arguments are those of ``work()``.
        """
        run_event_loop(self.work(queues=queues, keeper=keeper))


class JobType(Generic[P, R]):
    """A function registered with ``@app.job()``. Call it directly, or enqueue it as a job."""

    def __init__(
        self, app: App, definition: JobDefinition, handler: Callable[P, R], options: EnqueueOptions
    ) -> None:
        self._app = app
        self._handler = handler
        self._options = options
        self.definition = definition
        functools.update_wrapper(self, handler)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._handler(*args, **kwargs)

    @property
    def kind(self) -> str:
        """Return the name of the job kind."""
        return self.definition.kind

    def using(self, **options: Unpack[EnqueueOptions]) -> JobType[P, R]:
        """Return this job type with other enqueue options.

        ``await welcome.using(delay="5m", priority="high").enqueue(user_id=7)``. The options are listed under
        "Enqueue options".
        """
        merged = cast("EnqueueOptions", {**self._options, **options})
        return JobType(self._app, self.definition, self._handler, merged)

    def on_event(
        self,
        name: str,
        payload: Mapping[str, Any] | None = None,
        *,
        window: Duration = "5m",
        tenant: str = "default",
        label: str | None = None,
    ) -> Self:
        """Create a job for each event with this name.

        ``sync.on_event("folder.*", {"id": "{{event.folder_id}}"})``. Workers register the trigger when they
        start. Operators can change and disable it like other triggers.

        - ``name``: name of the event; ``folder.*`` matches all names with this prefix.
        - ``payload``: template of the job's payload.
        - ``window``: create no second job with the same payload within this time.
        - ``tenant``: tenant whose events are matched and that owns the jobs.
        - ``label``: name shown in the console. Default: the name of the trigger.
        """
        fields = {"event_name": name, "dedupe_window_seconds": window}
        self.definition.add_trigger("event", tenant, _trigger(fields, payload, label))
        return self

    def on_schedule(
        self,
        when: str,
        payload: Mapping[str, Any] | None = None,
        *,
        zone: str = "UTC",
        missed: Missed = "once",
        catch_up_limit: int = 10,
        overlap: Overlap = "allow",
        jitter: Duration = 0,
        gap: Gap = "next",
        fold: Fold = "once",
        tenant: str = "default",
        label: str | None = None,
    ) -> Self:
        """Create a job at each time of a schedule.

        ``report.on_schedule("0 2 * * *", zone="Europe/Paris")``. At most one job is created for each time,
        regardless of the number of keepers. Workers register the trigger when they start. Operators can
        change and disable it like other triggers.

        - ``when``: a cron expression, or an interval such as ``every 15m``.
        - ``payload``: template of the job's payload.
        - ``zone``: time zone of the cron expression.
        - ``missed``: what to do about times at which no keeper was running: ``"skip"`` them, run the latest
          one ``"once"``, or ``"catch_up"`` on up to ``catch_up_limit`` of them.
        - ``overlap``: what to do while the previous job is still active: ``"allow"`` both, ``"skip"`` the new
          one, or ``"queue"`` it behind the previous one.
        - ``jitter``: delay each run by a random time up to this value.
        - ``gap``: a local time that is skipped when clocks go forward runs at the ``"next"`` valid time, or
          is left out (``"skip"``).
        - ``fold``: a local time that occurs twice when clocks go back runs ``"once"`` or ``"twice"``.
        - ``tenant``: tenant that owns the jobs.
        - ``label``: name shown in the console. Default: the name of the trigger.
        """
        fields = {
            "cron_expr": when,
            "timezone": zone,
            "missed": missed,
            "catch_up_limit": catch_up_limit,
            "overlap": overlap,
            "jitter_seconds": jitter,
            "gap": gap,
            "fold": fold,
        }
        self.definition.add_trigger("schedule", tenant, _trigger(fields, payload, label))
        return self

    def request(self, arguments: Mapping[str, Any], options: EnqueueOptions | None = None) -> Request:
        """Return the request that would enqueue a job with these arguments, for ``Client.enqueue_many``.

        ``options`` are enqueue options; those set with ``using()`` take precedence.
        """
        try:
            self.definition.arguments.validate(arguments)
        except ValidationError as error:
            raise self.definition.arguments.error(error) from None
        given = {**(options or {}), **self._options}
        merged: EnqueueOptions = {
            "queue": self.definition.queue,
            "priority": self.definition.priority,
            **(options or {}),
            **self._options,
        }
        if self.definition.requires:
            merged.setdefault("requires", self.definition.requires)
        if self.definition.prefers:
            merged.setdefault("prefers", self.definition.prefers)
        if self.definition.limit_by:
            merged.setdefault("limit_key", text_at(arguments, self.definition.limit_by))
        if merged.get("retry") is None:  # a retry policy given by the caller also sets the number of attempts
            merged.setdefault("max_attempts", self.definition.max_attempts)
        implied = frozenset(merged.keys() - given.keys())
        definition = self.definition
        return Request(
            kind=definition.kind, payload=arguments, implied=implied, code=definition.code, **merged
        )

    async def enqueue(self, *, connection: Any = None, **arguments: Any) -> Handle:
        """Enqueue a job with these arguments and return its handle.

        With ``connection``, the job is inserted on that connection, in its open transaction.
        """
        client = self._app.client
        return await client.submit(self.request(arguments), connection=connection)

    def enqueue_sync(self, *, connection: Any = None, **arguments: Any) -> SyncHandle:
        """Enqueue a job from code without an event loop. The arguments are those of ``enqueue()``."""
        client = self._app.sync_client
        return client.submit(self.request(arguments), connection=connection)


def _remote(settings: Settings) -> Callable[[UUID], Backend]:
    try:
        from posthouse.worker.remote import HttpBackend  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise ConfigurationError(
            f"a remote worker needs {error.name}: pip install 'posthouse[remote]'"
        ) from None
    return lambda worker_id: HttpBackend(worker_id, settings)


def _trigger(fields: dict[str, Any], payload: Mapping[str, Any] | None, label: str | None) -> dict[str, Any]:
    named = {} if label is None else {"label": label}
    return {**fields, **named, "payload_template": dict(payload or {})}


def _check_batch(name: str, batch: int | None, batches: int | None) -> None:
    if batch is not None and not 1 <= batch <= MAX_BATCH:
        raise ConfigurationError(f"{name}: batch must be between 1 and {MAX_BATCH}, not {batch}")
    if batches is not None and (batch is None or batches < 1):
        raise ConfigurationError(f"{name}: batches must be at least 1 and requires batch")


def _validate_names(kind: str, name: str, values: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) and value for value in values):
        raise ConfigurationError(f"{kind}: {name} must be a list of non-empty strings, not {values!r}")
    return tuple(values)
