"""Long commands, one line each, with what they do now and how long it took."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence

LINES_AFTER_A_FAILURE = 40
SECONDS_BETWEEN_LINES = 15
"""How often a log file gets a line. A terminal is updated every second."""


class Line:
    """One line that changes on a terminal, or now and then a new line elsewhere."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._start = time.monotonic()
        self._shown = 0.0
        self._on_terminal = sys.stdout.isatty()
        self._print(f"{title} ...", end="" if self._on_terminal else "\n")

    def show(self, doing: str) -> None:
        pause = 1 if self._on_terminal else SECONDS_BETWEEN_LINES
        if time.monotonic() - max(self._shown, self._start) >= pause:
            self._shown = time.monotonic()
            self._print(f"{self._title} ... {self._seconds()} {doing}", end="" if self._on_terminal else "\n")

    def end(self, result: str = "done") -> None:
        self._print(f"{self._title}: {result} in {self._seconds()}", end="\n")

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._start:.0f} s"

    def _print(self, text: str, end: str) -> None:
        width = (os.get_terminal_size().columns or 80) if self._on_terminal else len(text)
        start = "\r\x1b[K" if self._on_terminal else ""
        print(f"{start}{text[: width - 1] if not end else text}", end=end, flush=True)


def run(
    title: str, command: Sequence[str], describe: Callable[[str], str | None] = lambda line: line
) -> None:
    """Run a command and show the last line of its output that ``describe`` has a text for.

    If the command fails, the end of its output is printed and this process exits with its code.
    """
    line = Line(title)
    output: deque[str] = deque(maxlen=LINES_AFTER_A_FAILURE)
    doing = ""
    process = subprocess.Popen(  # noqa: S603 - the callers in this folder name the commands
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    with process.stdout as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        rest = b""
        while True:
            if selector.select(timeout=1):
                data = os.read(pipe.fileno(), 65536)
                if not data:
                    break
                *whole, rest = (rest + data).split(b"\n")
                for text in (each.decode(errors="replace").strip() for each in whole):
                    output.append(text)
                    doing = describe(text) or doing
            line.show(doing)
    code = process.wait()
    if code:
        line.end(f"failed with exit code {code}")
        print("\n".join([*output, f"The command was: {' '.join(command)}"]), file=sys.stderr)
        sys.exit(code if code > 0 else 1)
    line.end()
