"""The interface that demos of applications use."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from posthouse.app import App
from posthouse.demo.processes import stop_processes
from posthouse.demo.screen import Screen
from posthouse.errors import PosthouseError, WaitTimeout
from posthouse.insights import StageInfo, stages_of
from posthouse.settings import ENV_PREFIX
from posthouse.storage.connect import connect_async
from posthouse.storage.queries import Db

LOOK_SECONDS = 0.2


@dataclass
class Stage:
    """A running Posthouse with one application: what the coroutine of a demo receives."""

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
    """What to open at the end; see ``link``."""
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print a line for the user."""
        self.screen.say(text)

    def show(self, name: str, done: float, total: float, told: str = "") -> None:
        """Show the progress bar of this name: ``done`` of ``total``."""
        self.screen.show(name, done, total, told)

    def link(self, text: str, path: str) -> None:
        """Offer a page to open at the end, such as ``/apps/shop/orders/7``, with what it shows."""
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
                stages = await self._look(connection, correlation_ids)
                self._show(stages, kinds)
                if stages and not any(stage.active for stage in stages):
                    return _refuse_failures(stages)
                self._refuse_silence()
                await asyncio.sleep(LOOK_SECONDS)

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str, timeout: float = 60.0) -> None:
        """Wait until the condition is true; raise WaitTimeout, naming ``what``, if it is not in time."""
        try:
            async with asyncio.timeout(timeout):
                while not await condition():
                    self._refuse_silence()
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise WaitTimeout(f"the demo timed out after {timeout:g} s while waiting for: {what}") from None

    def stop_workers(self) -> None:
        stop_processes(self._workers)

    async def _look(self, connection: Db, correlation_ids: Sequence[str]) -> list[StageInfo]:
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

    def _refuse_silence(self) -> None:
        """Raise if every worker has stopped: the demo would wait forever."""
        if self._workers and all(process.poll() is not None for process in self._workers):
            log = (self.folder / f"worker-{len(self._workers)}.log").read_text(errors="replace")
            raise PosthouseError(f"the worker of the demo stopped; the end of its log:\n{log[-2000:]}")


def _refuse_failures(stages: list[StageInfo]) -> list[StageInfo]:
    failed = {stage.kind: stage.unsuccessful for stage in stages if stage.unsuccessful}
    if failed:
        named = ", ".join(f"{count} {kind} job{'s' if count > 1 else ''}" for kind, count in failed.items())
        raise PosthouseError(f"{named} did not succeed; run `posthouse failures` to see the errors")
    return stages


Demo: TypeAlias = Callable[[Stage], Awaitable[dict[str, Any]]]
