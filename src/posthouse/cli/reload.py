"""--reload: run a command in a child process, and start it again when the code changes.

The parent watches files and owns what must survive a restart: the listening socket and the embedded Postgres.
When a child is replaced, it drains for a moment and then releases its jobs, which uses up no attempt.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer

from posthouse.cli.output import print_line
from posthouse.worker.shutdown import SIGNALS

FLAG = "--reload"
VARIABLE = "_POSTHOUSE_RELOAD"
"""The name has no prefix of settings, because the variable is not a setting."""
SUFFIXES = (".py", ".sql", ".toml")
DRAIN_SECONDS = 1.0
STOP_SECONDS = 20.0
LOOK_MILLISECONDS = 200
USAGE = 2
READY = b"r"


def reload_option() -> Any:
    return typer.Option(
        False, FLAG, help="Restart when code changes, for development; needs the extra [b]reload[/b]."
    )


class Inherited:
    """What a child gets from the parent that restarts it. The child stops when the parent has ended."""

    def __init__(self, text: str) -> None:
        given = json.loads(text)
        self.is_restart: bool = given["is_restart"]
        """Whether a child before this one was ready: the user has seen the first screen."""
        self._listening: int | None = given["listening"]
        self._parent = socket.socket(fileno=given["parent"])
        threading.Thread(target=self._stop_with_parent, daemon=True).start()

    def listening(self) -> socket.socket:
        """Return the socket to listen on, which the parent keeps open over restarts."""
        return socket.socket(fileno=self._listening)

    def tell_ready(self) -> None:
        with suppress(OSError):
            self._parent.send(READY)

    def _stop_with_parent(self) -> None:
        self._parent.recv(1)  # returns only when the parent has ended, because the parent sends nothing
        os.kill(os.getpid(), signal.SIGTERM)


def inherited() -> Inherited | None:
    """Return what the parent handed over if this process was started by one that reloads."""
    text = os.environ.pop(VARIABLE, None)
    return None if text is None else Inherited(text)


def run_reloading(apps: Sequence[str], listening: socket.socket | None = None) -> int:
    """Run this command without --reload in children until one ends for good; return its exit code."""
    from posthouse.cli.startup import require_extras

    require_extras(FLAG, "reload")
    return _Reloader(_folders(apps), listening).run()


def _folders(apps: Sequence[str]) -> list[Path]:
    """Return the current folder and those of apps that lie elsewhere, without installed packages."""
    from importlib.util import find_spec

    here = Path.cwd()
    found = {here}
    sys.path.insert(0, str(here))
    for app in apps:
        with suppress(ImportError, ValueError):
            spec = find_spec(app.partition(":")[0].partition(".")[0])
            if spec is not None and spec.origin is not None and "site-packages" not in spec.origin:
                found.add(Path(spec.origin).resolve().parent)
    return [
        folder for folder in found if not any(folder != one and folder.is_relative_to(one) for one in found)
    ]


class _Reloader:
    def __init__(self, folders: Sequence[Path], listening: socket.socket | None) -> None:
        self._folders = folders
        self._listening = listening
        self._child: subprocess.Popen[bytes] | None = None
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._was_ready = False
        self._ends = threading.Event()
        self._forwarded = False

    def run(self) -> int:
        with self._forwarding():
            changes = self._changes()
            next(changes)  # watch first, to notice changes while the child starts
            self._start()
            for changed in changes:
                if self._ends.is_set() or self._has_left():
                    break
                if changed:
                    self._restart(changed)
            return self._leave()

    @contextmanager
    def _forwarding(self) -> Iterator[None]:
        """Signals are for the child; the parent ends when the child has ended."""
        before = {number: signal.signal(number, self._forward) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _forward(self, number: int, _: object) -> None:
        self._ends.set()
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)
            self._forwarded = True

    def _changes(self) -> Iterator[list[str]]:
        """Yield the files of each change, and an empty list every moment without one."""
        from watchfiles import DefaultFilter, watch

        filtered = DefaultFilter()
        found = watch(
            *self._folders,
            watch_filter=lambda change, path: path.endswith(SUFFIXES) and filtered(change, path),
            rust_timeout=LOOK_MILLISECONDS,
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        for changes in found:
            yield sorted({path for _, path in changes})

    def _has_left(self) -> bool:
        """Whether the child ended by itself for good: without an error, or because of wrong usage."""
        return self._child is not None and self._child.poll() in {0, USAGE}

    def _start(self) -> None:
        with suppress(BlockingIOError):
            self._was_ready |= bool(self._ours.recv(1))
        theirs = self._theirs.fileno()
        listening = None if self._listening is None else self._listening.fileno()
        handed = {"is_restart": self._was_ready, "listening": listening, "parent": theirs}
        words = [word for word in sys.argv[1:] if word != FLAG]
        self._child = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "posthouse", *words],
            env={**os.environ, VARIABLE: json.dumps(handed)},
            pass_fds=[number for number in (theirs, listening) if number is not None],
            process_group=0,  # so that Ctrl-C reaches the child once, through the parent
        )
        threading.Thread(target=self._report_failure, args=(self._child,), daemon=True).start()

    def _report_failure(self, child: subprocess.Popen[bytes]) -> None:
        code = child.wait()
        if child is self._child and code not in {0, USAGE} and not self._ends.is_set():
            print_line(
                f"reload: stopped with exit code {code}; waiting for a change", err=True, style="yellow"
            )

    def _restart(self, changed: Sequence[str]) -> None:
        names = ", ".join(os.path.relpath(path) for path in changed)
        print_line(f"reload: {names} changed, restarting", err=True, style="dim")
        child, self._child = self._child, None
        if child is not None:
            _stop(child)
        if not self._ends.is_set():
            self._start()

    def _leave(self) -> int:
        if self._child is None:
            return 0
        if not self._forwarded:  # the signal came while the child was being started
            self._child.terminate()
        code = self._child.wait()
        return code if code >= 0 else 128 - code


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Drain for a moment, then release the jobs, then kill."""
    for seconds in (DRAIN_SECONDS, STOP_SECONDS):
        child.terminate()
        end = time.monotonic() + seconds
        while child.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
    if child.poll() is None:
        child.kill()
        child.wait()
