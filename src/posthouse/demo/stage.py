"""What a demo is given."""

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
from posthouse.demo.screen import Screen
from posthouse.errors import PosthouseError, WaitTimeout
from posthouse.insights import StageInfo, stages_of
from posthouse.settings import ENV_PREFIX
from posthouse.storage.connect import connect_async
from posthouse.storage.reading import Db

LOOK_SECONDS = 0.2
STOP_SECONDS = 20.0


@dataclass
class Stage:
    """A running product with one application on it."""

    app: App
    path: str
    """Where the application is, as ``module:name``."""
    database_url: str
    api_url: str
    """Of the control plane and of the application's own routes."""
    api_key: str
    """Of a super-admin."""
    worker_key: str
    """For remote workers."""
    folder: Path
    """For files of the demo; it is removed afterwards."""
    screen: Screen
    size: int | None = None
    """How much to do, if the user said so."""
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def say(self, text: str) -> None:
        """A line for the user."""
        self.screen.say(text)

    def show(self, name: str, done: float, total: float, told: str = "") -> None:
        """The bar of this name: so much is done, of so much."""
        self.screen.show(name, done, total, told)

    def worker(self, *options: str, remote: bool = False, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker for the application in a process of its own: one more, or one that works over HTTP
        and does not know the database. Options are those of `posthouse worker`. It is stopped with the demo.
        """
        # A remote one knows nothing of ours; one beside the database finds its files where the others do.
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
        """A bar for each kind of job until every job of these correlations has ended; how they ended.

        ``kinds`` are shown first and in this order, others as they come. Raises if one did not succeed.
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
        """Wait for something that the demo watches by itself."""
        try:
            async with asyncio.timeout(timeout):
                while not await condition():
                    self._refuse_silence()
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise WaitTimeout(f"{what} did not happen within {timeout:g} s") from None

    def stop_workers(self) -> None:
        for process in self._workers:
            process.terminate()
        for process in self._workers:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

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
        """Without any worker left nothing would ever end."""
        if self._workers and all(process.poll() is not None for process in self._workers):
            log = (self.folder / f"worker-{len(self._workers)}.log").read_text(errors="replace")
            raise PosthouseError(f"the worker stopped:\n{log[-2000:]}")


def _refuse_failures(stages: list[StageInfo]) -> list[StageInfo]:
    failed = {stage.kind: stage.unsuccessful for stage in stages if stage.unsuccessful}
    if failed:
        named = ", ".join(f"{count} of {kind}" for kind, count in failed.items())
        raise PosthouseError(f"some jobs did not succeed: {named}; `posthouse failures` says why")
    return stages


Demo: TypeAlias = Callable[[Stage], Awaitable[dict[str, Any]]]
