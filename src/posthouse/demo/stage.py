"""What a demo of an application runs in: a stage with its processes and its screen."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar

import typer

from posthouse.app import App
from posthouse.errors import PosthouseError, WaitTimeout
from posthouse.insights import StageInfo, stages_of
from posthouse.settings import ENV_PREFIX
from posthouse.storage.connections import connect_async
from posthouse.storage.queries import Db

P = ParamSpec("P")
R = TypeVar("R")

DRAIN_SECONDS = 2.0
STOP_SECONDS = 20.0


def stop_processes(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Stop workers: drain, then release what still runs, then kill."""
    alive = [process for process in processes if process.poll() is None]
    for seconds in (DRAIN_SECONDS, STOP_SECONDS):
        for process in alive:
            process.terminate()  # the second SIGTERM makes a worker release its jobs
        alive = _still_alive(alive, seconds)
    for process in alive:
        process.kill()
        process.wait()


def _still_alive(processes: list[subprocess.Popen[bytes]], seconds: float) -> list[subprocess.Popen[bytes]]:
    """Wait up to ``seconds`` for all processes to end. Return those that still run."""
    end = time.monotonic() + seconds
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
    return [process for process in processes if process.poll() is None]


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run blocking work in a thread. A cancellation waits until the work has ended and can be undone."""
    return await finish(asyncio.to_thread(function, *args, **kwargs))


async def finish(work: Coroutine[Any, Any, R]) -> R:
    """Run work to its end, also if the caller is canceled meanwhile."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


class Screen:
    """Named progress bars on stderr, one per line; a full bar stays visible. Stdout holds only the result."""

    def __init__(self) -> None:
        self._bars: dict[str, Any] = {}
        self._reported: dict[str, str] = {}
        self._progress: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - slow to load
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            columns = (
                TextColumn("{task.description:<24}"),
                BarColumn(),
                TextColumn("{task.fields[text]}"),
                TimeElapsedColumn(),
            )
            self._progress = Progress(*columns, console=Console(stderr=True))
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, text: str) -> None:
        if self._progress is None:
            typer.echo(text, err=True)
        else:
            self._progress.console.print(text, markup=False, highlight=False)

    def show(self, name: str, done: float, total: float, text: str = "") -> None:
        """Set the bar with this name. A new name adds a bar."""
        text = text or f"{done:.0f} of {total:.0f}"
        if self._progress is None:
            if self._reported.get(name) != text:
                self._reported[name] = text
                self.say(f"{name}: {text}")
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total, text="")
        self._progress.update(self._bars[name], total=total, completed=done, text=text)


class JobScreen(Screen):
    """Progress as lines on stdout that a worker reads (posthouse.commands.output): the mean of all bars."""

    def __init__(self) -> None:
        super().__init__()
        self._shares: dict[str, float] = {}
        self._percent = 0.0

    def say(self, text: str) -> None:
        typer.echo(text, err=True)
        self._report(message=text)

    def show(self, name: str, done: float, total: float, text: str = "") -> None:
        text = text or f"{done:.0f} of {total:.0f}"
        if self._reported.get(name) == text:
            return
        self._reported[name] = text
        self._shares[name] = done / total if total else 1.0
        self._percent = 100 * min(1.0, sum(self._shares.values()) / len(self._shares))
        self._report(step=name, message=text)

    def _report(self, **fields: str) -> None:
        line = json.dumps({"percent": round(self._percent, 1), **fields})
        typer.echo(f"posthouse: {line}")
        sys.stdout.flush()


LOOK_SECONDS = 0.2


@dataclass
class Stage:
    """A running Posthouse with one application, which the coroutine of a demo receives."""

    app: App
    path: str
    """The application as ``module:name``."""
    database_url: str
    api_url: str
    """The address of the API and of the application's own routes."""
    api_key: str
    """An API key with the role super-admin."""
    worker_key: str
    """An API key for remote workers."""
    folder: Path
    """A folder for files of the demo; it is deleted at the end."""
    screen: Screen
    size: int | None = None
    """The value of --size, if given."""
    links: dict[str, str] = field(default_factory=dict)
    """The pages to open at the end; see ``link``."""
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print a line for the user."""
        self.screen.say(text)

    def show(self, name: str, done: float, total: float, text: str = "") -> None:
        """Show the progress bar of this name: ``done`` of ``total``."""
        self.screen.show(name, done, total, text)

    def link(self, text: str, path: str) -> None:
        """Offer a page to open at the end, such as ``/apps/shop/orders/7``. ``text`` says what it shows."""
        self.links[text] = path

    def worker(self, *options: str, remote: bool = False, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker process for the application, with options of `posthouse worker`.

        A ``remote`` worker uses the HTTP API and does not know the database. The demo stops the worker at
        its end.
        """
        # A remote worker gets no settings of this machine; a local one needs the same data folder.
        kept = {
            name: value for name, value in os.environ.items() if not (remote and name.startswith(ENV_PREFIX))
        }
        where = (
            {"REMOTE_URL": self.api_url, "REMOTE_KEY": self.worker_key}
            if remote
            else {"DATABASE_URL": self.database_url}
        )
        named = {f"{ENV_PREFIX}{name}": value for name, value in where.items()}
        command = [sys.executable, "-m", "posthouse", "worker", "--app", self.path, *options]
        with (self.folder / f"worker-{len(self._workers) + 1}.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                command, env={**kept, **named, **environment}, stdout=log, stderr=log
            )
        self._workers.append(process)
        return process

    async def follow(
        self, *correlation_ids: str, kinds: Sequence[str] = (), timeout: float = 600.0
    ) -> list[StageInfo]:
        """Show a bar for each kind until every job of these correlation ids has ended; return the counts.

        ``kinds`` are shown first, in this order; other kinds follow as they appear. Raises PosthouseError if
        a job did not succeed.
        """
        async with await connect_async(self.database_url, "demo") as connection, asyncio.timeout(timeout):
            while True:
                stages = await self._load_stages(connection, correlation_ids)
                self._show(stages, kinds)
                if stages and not any(stage.active for stage in stages):
                    return _require_success(stages)
                self._require_live_worker()
                await asyncio.sleep(LOOK_SECONDS)

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str, timeout: float = 60.0) -> None:
        """Wait until the condition is true. Raise WaitTimeout, which names ``what``, after ``timeout``."""
        try:
            async with asyncio.timeout(timeout):
                while not await condition():
                    self._require_live_worker()
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise WaitTimeout(f"the demo timed out after {timeout:g} s while waiting for: {what}") from None

    def stop_workers(self) -> None:
        stop_processes(self._workers)

    async def _load_stages(self, connection: Db, correlation_ids: Sequence[str]) -> list[StageInfo]:
        found: dict[str, StageInfo] = {}
        for correlation_id in correlation_ids:
            for stage in await stages_of(connection, correlation_id):
                known = found.get(stage.kind)
                found[stage.kind] = stage if known is None else known + stage
        return list(found.values())

    def _show(self, stages: Sequence[StageInfo], kinds: Sequence[str]) -> None:
        by_kind = {stage.kind: stage for stage in stages}
        for kind in dict.fromkeys((*kinds, *by_kind)):
            stage = by_kind.get(kind)
            if stage is not None:
                self.show(kind, stage.done, stage.jobs, f"{stage.succeeded} of {stage.jobs}")

    def _require_live_worker(self) -> None:
        """Raise if every worker has stopped: the demo would wait forever."""
        if self._workers and all(process.poll() is not None for process in self._workers):
            log = (self.folder / f"worker-{len(self._workers)}.log").read_text(errors="replace")
            raise PosthouseError(f"the worker of the demo stopped; the end of its log:\n{log[-2000:]}")


def _require_success(stages: list[StageInfo]) -> list[StageInfo]:
    failed = {stage.kind: stage.unsuccessful for stage in stages if stage.unsuccessful}
    if failed:
        named = ", ".join(f"{count} {kind} job{'s' if count > 1 else ''}" for kind, count in failed.items())
        raise PosthouseError(f"{named} did not succeed; run `posthouse failures` to see the errors")
    return stages


Demo: TypeAlias = Callable[[Stage], Awaitable[dict[str, Any]]]
