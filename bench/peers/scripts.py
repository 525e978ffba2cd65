"""Running a peer's script: commands that answer once, and workers that go on."""

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .catalogue import Peer
from .environments import REPOSITORY

STOP_TIMEOUT_S = 5
POLL_S = 0.005


class PeerError(Exception):
    pass


class Deadline:
    """The end of the whole run, which no wait may pass."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def at_most(self, seconds: float) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise PeerError("the time for all peers is used up")
        return min(seconds, left)

    def came_true(self, condition: Callable[[], bool], *, seconds: float) -> bool:
        """Wait until the condition holds; False if it did not in time."""
        end = time.monotonic() + self.at_most(seconds)
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(POLL_S)
        return True


class Script:
    """One peer's script against one database."""

    def __init__(
        self, peer: Peer, database_url: str, deadline: Deadline, *, guarantees: bool = False
    ) -> None:
        self._command = peer.command()
        # In the environment and not among the arguments, where every user could read it.
        self._environment = {
            **os.environ,
            "PEER_DATABASE_URL": database_url,
            "PEER_GUARANTEES": "on" if guarantees else "",
        }
        self._deadline = deadline

    def ask(self, *arguments: str, seconds: float) -> dict[str, Any]:
        """Run one command to its end and return its answer."""
        try:
            finished = subprocess.run(
                [*self._command, *arguments],
                cwd=REPOSITORY,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=self._deadline.at_most(seconds),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"{arguments[0]} took too long") from error
        if finished.returncode != 0:
            raise PeerError(f"{arguments[0]} failed: {_last_line(finished.stderr)}")
        answer: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        return answer

    def worker(self, *mode: str) -> "Worker":
        return Worker([*self._command, "work", *mode], self._environment)


class Worker:
    """A worker process that tells how far it is."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.ready = False
        self.ran = 0
        self.first: float | None = None
        self.delays_ms: list[float] = []
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115  stop() closes it
        self._process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def check(self) -> None:
        if self._process.poll() is not None:
            self._errors.seek(0)
            raise PeerError(f"the worker ended: {_last_line(self._errors.read())}")

    def peak_rss_mb(self) -> float | None:
        """The most memory it has held so far, where the system tells (Linux)."""
        status = Path(f"/proc/{self._process.pid}/status")
        if not status.exists():
            return None
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
        return None

    def stop(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()  # the worker ends when its stdin does
            self._process.wait(STOP_TIMEOUT_S)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._errors.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue  # a library may print what it likes
            said = json.loads(line)
            self.ready = self.ready or "ready" in said
            if "ran" in said:
                self.first = said["first"]
                self.delays_ms.extend(said["delays_ms"])
                self.ran = said["ran"]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Node ends a stack trace with its version; the line that names the error says more.
    named = [line for line in lines if "Error" in line.split(":")[0]]
    return (named or lines or ["no message"])[-1][:300]
