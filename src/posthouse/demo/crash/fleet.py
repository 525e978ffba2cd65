"""The worker processes of the crash demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from posthouse.demo.processes import stop_processes
from posthouse.errors import PosthouseError
from posthouse.settings import ENV_PREFIX

WORKER = "posthouse.demo.crash.worker"
LOG_TAIL = 2000


class Fleet:
    """Workers as processes. A killed one is replaced, as a process supervisor would do."""

    def __init__(self, url: str, folder: Path, *, concurrency: int) -> None:
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
        chosen = {"DATABASE_URL": url, "CONCURRENCY": str(concurrency)}
        self._environment = {**kept, **{f"{ENV_PREFIX}{name}": value for name, value in chosen.items()}}
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._started = 0

    @property
    def pids(self) -> list[int]:
        return list(self._workers)

    def start(self) -> int:
        """Start one more worker; return its process id."""
        self._started += 1
        with self._log(self._started).open("wb") as log:
            # Started in the folder, so that no posthouse.toml of the user applies.
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", WORKER],
                cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0,  # Ctrl-C is for the demo, which stops its workers
            )  # fmt: skip
        self._workers[process.pid] = process
        return process.pid

    def kill(self, pid: int) -> None:
        """Kill a worker with SIGKILL, and start another in its place."""
        process = self._workers.pop(pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.start()

    def check(self) -> None:
        """Raise if a worker ended by itself."""
        for process in self._workers.values():
            if process.poll() is not None:
                log = self._log(self._started).read_text(errors="replace")
                raise PosthouseError(
                    f"a worker of the demo stopped with exit code {process.returncode}; the end of its log:\n"
                    f"{log[-LOG_TAIL:]}"
                )

    def stop(self) -> None:
        stop_processes(self._workers.values())
        self._workers.clear()

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"
