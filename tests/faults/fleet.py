"""Workers in processes of their own, to be killed, stopped and cut off."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg

import stable
from workshop import eventually_sync

SCRIPT = Path(__file__).with_name("errands.py")
QUICK = {
    "heartbeat_seconds": 0.2,
    "lease_seconds": 1.5,
    "cancel_grace_seconds": 0.5,
    "rescue_grace_seconds": 0,
    "drain_seconds": 5,
    "poll_seconds": 0.2,
}


class WorkerProcess:
    def __init__(self, url: str, *, keeper: bool = True, **settings: object) -> None:
        values = {**QUICK, **settings, "database_url": url}
        environment = {f"POSTHOUSE_{name.upper()}": str(value) for name, value in values.items()}
        self.process = stable.start(
            [SCRIPT, *([] if keeper else ["--no-keeper"])], env={**os.environ, **environment}
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

    def wait(self, seconds: float = 30) -> int:
        return self.process.wait(seconds)


class Fleet:
    """Starts workers, and ends those that still live when it is closed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.workers: list[WorkerProcess] = []

    def start(self, count: int = 1, *, url: str = "", ready: bool = True, **options: object):
        started = [WorkerProcess(url or self.url, **options) for _ in range(count)]
        self.workers += started
        if ready:
            self.await_ready(started)
        return started[0] if count == 1 else started

    def await_ready(self, workers: list[WorkerProcess]) -> None:
        pids = [worker.pid for worker in workers]
        with psycopg.connect(self.url, autocommit=True) as db:
            ask = "select count(*) from posthouse.workers where pid = any (%s) and stopped_at is null"
            eventually_sync(
                lambda: db.execute(ask, (pids,)).fetchone() == (len(pids),), 60, "the start of workers"
            )

    def close(self) -> None:
        for worker in self.workers:
            if worker.alive:
                worker.resume()
                worker.kill()
