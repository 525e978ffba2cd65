"""Workers in processes of their own, to be killed, stopped and cut off."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from support import forkserver
from support.waiting import WAIT_SECONDS, eventually_sync

SCRIPT = Path(__file__).with_name("fault_jobs.py")
NOWHERE = "postgresql://none@127.0.0.1:1/none"
SHORT_LEASE = {"lease_seconds": 4}
"""For workers whose leases are to expire. Those of the workers that take over are longer."""
QUICK = {
    "heartbeat_seconds": 0.2,
    "lease_seconds": 20,
    "cancel_grace_seconds": 0.5,
    "rescue_grace_seconds": 0,
    "drain_seconds": 5,
    "poll_seconds": 0.2,
}


class WorkerProcess:
    def __init__(self, url: str, *, keeper: bool = True, **settings: object) -> None:
        self._start([SCRIPT, *([] if keeper else ["--no-keeper"])], database_url=url, **settings)

    def _start(self, words: list[str | Path], **settings: object) -> None:
        values = {**QUICK, **settings}
        environment = {f"POSTHOUSE_{name.upper()}": str(value) for name, value in values.items()}
        self.process = forkserver.start_python(
            words, folder=SCRIPT.parent, env={**os.environ, **environment}, stdout=subprocess.DEVNULL
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        self.process.terminate()

    def wait(self, seconds: float = WAIT_SECONDS) -> int:
        return self.process.wait(seconds)


class SupervisedWorker(WorkerProcess):
    """`posthouse worker` with two child processes. Faults strike its newest child process."""

    WORDS = (
        "-m",
        "posthouse",
        "worker",
        "--app",
        "fault_jobs:app",
        "--processes",
        "2",
        "--log-level",
        "error",
    )

    def __init__(self, url: str, **settings: object) -> None:
        self._start([*self.WORDS], database_url=url, **settings)

    @property
    def children(self) -> list[psutil.Process]:
        try:
            found = psutil.Process(self.pid).children(recursive=True)
            return [
                one
                for one in found
                if one.name() == forkserver.CHILD_NAME or "posthouse.cli.child" in " ".join(one.cmdline())
            ]
        except psutil.NoSuchProcess:
            return []

    def kill_child(self) -> int | None:
        """Kill a child process, which the supervisor replaces. Return its pid."""
        for child in self.children[-1:]:
            with suppress(psutil.NoSuchProcess):
                child.kill()
            return child.pid
        return None

    def pause(self) -> None:
        self._paused = self.children[-1:]
        for child in self._paused:
            with suppress(psutil.NoSuchProcess):
                child.suspend()

    def resume(self) -> None:
        for child in getattr(self, "_paused", []):
            with suppress(psutil.NoSuchProcess):
                child.resume()


class RemoteWorker(SupervisedWorker):
    """The same over HTTP, without a database."""

    def __init__(self, url: str, *, key: str, **settings: object) -> None:
        self._start([*self.WORDS], remote_url=url, remote_key=key, database_url=NOWHERE, **settings)


class ServerProcess(WorkerProcess):
    """`posthouse server` on a port."""

    def __init__(self, url: str, port: int, **settings: object) -> None:
        words = ["-m", "posthouse", "server", "--port", str(port), "--log-level", "error"]
        self._start(words, database_url=url, **settings)


class Fleet:
    """Starts workers, and ends those that still live when it is closed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.workers: list[WorkerProcess] = []

    def start(
        self,
        count: int = 1,
        *,
        url: str = "",
        ready: bool = True,
        kind: type[WorkerProcess] = WorkerProcess,
        **options: object,
    ):
        started = [kind(url or self.url, **options) for _ in range(count)]
        self.workers += started
        if ready:
            self.await_ready(started)
        return started[0] if count == 1 else started

    def await_ready(self, workers: list[WorkerProcess]) -> None:
        pids = [worker.pid for worker in workers]
        with psycopg.connect(self.url, autocommit=True) as db:
            ask = "select count(*) from posthouse.workers where pid = any (%s) and stopped_at is null"
            eventually_sync(
                lambda: db.execute(ask, (pids,)).fetchone() == (len(pids),), what="the start of workers"
            )

    def close(self) -> None:
        for worker in self.workers:
            if worker.alive:
                worker.resume()
                worker.kill()
