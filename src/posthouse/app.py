"""The application: the jobs that it knows, and how to enqueue and run them."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar, Unpack, cast
from uuid import UUID

from posthouse.client.client import Client
from posthouse.client.handle import Handle, SyncHandle
from posthouse.client.options import Options
from posthouse.client.sync import SyncClient
from posthouse.core.due import Missed
from posthouse.core.duration import Duration, seconds
from posthouse.core.limit import Limit, text_at
from posthouse.core.outcome import Policy
from posthouse.core.priority import priority_number
from posthouse.core.request import Request
from posthouse.core.retry import DEFAULT_RETRY, Retry
from posthouse.core.schedule import Fold, Gap
from posthouse.errors import ConfigurationError, NoDatabase, PosthouseError
from posthouse.settings import Settings, load_settings
from posthouse.storage.connect import connect_sync
from posthouse.storage.errors import translated
from posthouse.storage.migrate import apply_schema, migrate
from posthouse.storage.server import database_url, ready_database_url
from posthouse.worker.arguments import Arguments
from posthouse.worker.backend import Backend
from posthouse.worker.definition import PROCESS, RUNNERS, Definition
from posthouse.worker.direct import Direct
from posthouse.worker.process import Stop, run_loop
from posthouse.worker.spans import trace_workers

if TYPE_CHECKING:
    from posthouse.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

Runner: TypeAlias = Literal["auto", "process"]
Overlap: TypeAlias = Literal["allow", "skip", "queue"]

DEFAULT_TIMEOUT = "1h"
OWN_KINDS = "posthouse."


class App:
    """Holds job definitions. Without a URL it uses the settings, and without those an embedded Postgres.

    ``schema`` is a file of SQL that makes the tables the jobs work on: `posthouse up` and `posthouse migrate`
    run it with ``--app`` whenever it has changed, so it must bear being run again. ``routes`` says where a
    FastAPI router is, as ``module:name``; `posthouse up` and `posthouse server` serve it beside the API.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        schema: str | Path | None = None,
        routes: str | None = None,
    ) -> None:
        self._given_settings = settings
        self._given_url = database_url
        self.schema = None if schema is None else Path(schema)
        self.routes = routes
        self.definitions: dict[str, Definition] = {}
        self._client: Client | None = None
        self._client_loop: asyncio.AbstractEventLoop | None = None

    @functools.cached_property
    def settings(self) -> Settings:
        return self._given_settings or load_settings(database_url=self._given_url)

    @property
    def client(self) -> Client:
        """The client of the running event loop: connections belong to the loop that opened them."""
        loop = asyncio.get_running_loop()
        self._refuse_if_remote()
        if self._client is None or self._client_loop is not loop:
            self._client, self._client_loop = Client(settings=self.settings), loop
        return self._client

    @functools.cached_property
    def sync_client(self) -> SyncClient:
        self._refuse_if_remote()
        return SyncClient(settings=self.settings)

    def _refuse_if_remote(self) -> None:
        if self.settings.remote_url:
            raise NoDatabase(
                "this process is a remote worker and has no database to enqueue into: "
                "add follow-ups with job.enqueue(), or use the HTTP API"
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections that enqueue opened."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if "sync_client" in self.__dict__:
            await asyncio.to_thread(self.__dict__.pop("sync_client").close)

    def migrate(self) -> None:
        """Bring the database up to date: Posthouse's own schema, and the app's if it has one."""
        url = database_url(self.settings)
        with translated(), connect_sync(url, "migrate") as connection:
            migrate(connection)
            if self.schema is not None:
                name = f"{self.schema.parent.name}/{self.schema.name}"
                apply_schema(connection, name, self.schema.read_text())

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
        takes: type[Any] | None = None,
        runner: Runner = "auto",
        memory_mb: int | None = None,
        keep_steps: bool = True,
        keep_progress: bool = True,
        limits: Sequence[Limit] = (),
        limit_by: str | None = None,
        requires: Sequence[str] = (),
        prefers: Sequence[str] = (),
        redact: Sequence[str] = (),
        active: bool = True,
        remote: bool = True,
    ) -> Callable[[Callable[P, R]], JobType[P, R]]:
        """Make a function a job. Its name is the kind unless another is given.

        ``async def`` runs in the worker's event loop, ``def`` in a thread; with ``runner="process"`` either
        runs in a process of its own, where it may take up to ``memory_mb``. ``fail_on`` names exceptions
        that must not be retried. With ``batch=N`` the function takes a list of up to N jobs and returns a
        list with an answer for each; ``takes`` is then the type that their payloads have. A retry goes on
        behind finished steps and keeps progress and parts, unless ``keep_steps`` or ``keep_progress`` say
        otherwise.

        ``limits`` bound how many run at a time or start in a time; those ``per="key"`` count by the place in
        the payload that ``limit_by`` names, like ``user.id``, or by the option ``limit_key``.

        It runs only on workers with all the capabilities that it ``requires``, and rather on those that it
        ``prefers``. ``redact`` names places in the payload that nobody is to see, like ``user.iban``. With
        ``active=False`` it takes no jobs until an operator activates it. With ``remote=False`` it runs on
        workers with the database only, as handlers that commit must.
        """

        def register(handler: Callable[P, R]) -> JobType[P, R]:
            name = kind or handler.__name__
            if name in self.definitions:
                raise ConfigurationError(f"there are two jobs called {name!r}")
            if name.startswith(OWN_KINDS):
                raise ConfigurationError(f"{name!r}: kinds that start with {OWN_KINDS!r} are Posthouse's own")
            if batch is not None and batch < 1:
                raise ConfigurationError(f"{name}: batch must be at least 1")
            if runner not in RUNNERS:
                raise ConfigurationError(f"{name}: runner is one of {', '.join(RUNNERS)}, not {runner!r}")
            if memory_mb is not None and (runner != PROCESS or memory_mb < 1):
                raise ConfigurationError(f'{name}: memory_mb is at least 1, and needs runner="process"')
            attempts = retry.attempts if max_attempts is None else max_attempts
            if attempts < 1:
                raise ConfigurationError(f"{name}: max_attempts must be at least 1")
            self.definitions[name] = Definition(
                kind=name,
                handler=handler,
                queue=queue,
                priority=priority_number(priority),
                max_attempts=attempts,
                timeout=None if timeout is None else seconds(timeout),
                policy=Policy(retry, tuple(fail_on)),
                batch=batch,
                arguments=Arguments(name, handler, batch=batch is not None, takes=takes),
                is_async=inspect.iscoroutinefunction(handler),
                runner=runner,
                memory_mb=memory_mb,
                keep_steps=keep_steps,
                keep_progress=keep_progress,
                limits=tuple(limits),
                limit_by=limit_by,
                requires=_texts(name, "requires", requires),
                prefers=_texts(name, "prefers", prefers),
                redact=_texts(name, "redact", redact),
                active=active,
                remote=remote,
            )
            return JobType(self, self.definitions[name], handler, {})

        return register

    async def worker(self, *, queues: Sequence[str] = (), **settings: Any) -> Worker:
        """A worker for these jobs, not started yet."""
        from posthouse.worker.worker import Worker  # noqa: PLC0415 - whoever only enqueues need not load it

        chosen = dataclasses.replace(self.settings, **settings)
        if chosen.tracing:
            trace_workers()
        if chosen.remote_url:
            anywhere = {kind: item for kind, item in self.definitions.items() if item.remote}
            return Worker(anywhere, _remote(chosen), chosen, queues=queues)
        url = await asyncio.to_thread(ready_database_url, chosen)
        return Worker(
            self.definitions, lambda worker_id: Direct(url, worker_id, chosen), chosen, queues=queues
        )

    async def work(
        self,
        *,
        queues: Sequence[str] = (),
        keeper: bool = True,
        ready: Callable[[Worker], None] | None = None,
    ) -> None:
        """Run jobs until SIGTERM or SIGINT, then drain; a second signal cuts the drain short.

        An operator may drain it too: `posthouse workers drain`.
        """
        from posthouse.system.housekeeping import Housekeeping  # noqa: PLC0415 - likewise, and it is large

        worker = await self.worker(queues=queues)
        housekeeping = None
        if keeper and not self.settings.remote_url:
            url = await asyncio.to_thread(database_url, self.settings)
            housekeeping = Housekeeping(url, self.settings)
        stop = Stop(asyncio.get_running_loop())
        await worker.start()
        if housekeeping is not None:
            await housekeeping.start()
        if ready is not None:
            ready(worker)
        await stop.asked_or(worker.failed, worker.dismissed)
        draining = asyncio.ensure_future(worker.stop())
        await stop.again(draining, worker.hurry)
        if housekeeping is not None:
            await housekeeping.stop()
        await self.close()
        if worker.failed.is_set():
            raise PosthouseError("the worker broke down; the log says why")

    def run_worker(self, *, queues: Sequence[str] = (), keeper: bool = True) -> None:
        """Run a worker in this process until it is told to stop."""
        run_loop(self.work(queues=queues, keeper=keeper))


class JobType(Generic[P, R]):
    """A decorated function: call it as before, or enqueue it."""

    def __init__(self, app: App, definition: Definition, handler: Callable[P, R], options: Options) -> None:
        self._app = app
        self._handler = handler
        self._options = options
        self.definition = definition
        functools.update_wrapper(self, handler)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._handler(*args, **kwargs)

    @property
    def kind(self) -> str:
        return self.definition.kind

    def using(self, **options: Unpack[Options]) -> JobType[P, R]:
        """The same job with other options: ``welcome.using(delay="5m", priority="high").enqueue(...)``."""
        merged = cast("Options", {**self._options, **options})
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
        """Make one of each event of this name: ``sync.on_event("folder.*", {"id": "{{event.folder_id}}"})``.

        Not twice with the same payload within ``window``. A worker announces it when it starts; operators can
        change and disable it like other triggers.
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
        """Make one at these times: ``report.on_schedule("0 2 * * *", zone="Europe/Paris")``.

        Each time has one, however many keepers there are. ``missed`` says what happens to times that nobody
        was there for, ``overlap`` what happens while the one before still runs, ``gap`` and ``fold`` what
        becomes of times that a change of the clocks leaves out or repeats. A worker announces it when it
        starts; operators can change and disable it like other triggers.
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

    def request(self, arguments: Mapping[str, Any], options: Options | None = None) -> Request:
        """The request that enqueues it, for ``Client.enqueue_many``."""
        self.definition.arguments.check(arguments)
        given = {**(options or {}), **self._options}
        merged: Options = {
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
        if merged.get("retry") is None:  # a policy of its own brings its own number of attempts
            merged.setdefault("max_attempts", self.definition.max_attempts)
        implied = frozenset(merged.keys() - given.keys())
        return Request(kind=self.kind, payload=arguments, implied=implied, **merged)

    async def enqueue(self, *, connection: Any = None, **arguments: Any) -> Handle:
        """Enqueue it; on ``connection`` if given, in the transaction that is open there."""
        client = self._app.client
        return await client.submit(self.request(arguments), connection=connection)

    def enqueue_sync(self, *, connection: Any = None, **arguments: Any) -> SyncHandle:
        """The same for code without an event loop."""
        client = self._app.sync_client
        return client.submit(self.request(arguments), connection=connection)


def _remote(settings: Settings) -> Callable[[UUID], Backend]:
    try:
        from posthouse.worker.remote import Remote  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError(
            f"a remote worker needs {error.name}: pip install 'posthouse[remote]'"
        ) from None
    return lambda worker_id: Remote(worker_id, settings)


def _trigger(fields: dict[str, Any], payload: Mapping[str, Any] | None, label: str | None) -> dict[str, Any]:
    named = {} if label is None else {"label": label}
    return {**fields, **named, "payload_template": dict(payload or {})}


def _texts(kind: str, name: str, values: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) and value for value in values):
        raise ConfigurationError(f"{kind}: {name} is a list of texts, none of them empty, not {values!r}")
    return tuple(values)
