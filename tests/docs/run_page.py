"""Runs one page: ``python run_page.py PAGE`` in an empty folder.

The blocks run in order and share one namespace, one event loop, one folder and one database, that of
POSTHOUSE_DATABASE_URL or the embedded one:

python    runs; ``await`` works outside of functions, as in ``python -m asyncio``. A block that opens with
          ``# name.py`` is saved under that name instead.
text      right behind a python or sql block: what that block prints, or what psql would.
console   lines with ``$`` are run, the lines below each are its output. Commands that stay (a worker) are
          left running until ``^C``, there or in a later block, or the end of the page; they must end well.
          They run in a terminal, the others do not.
sql       runs against the database.
toml      is read as posthouse.toml.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import psycopg

from posthouse.settings import load_settings
from posthouse.storage.database import close_embedded, database_url

sys.path.append(str(Path(__file__).parents[1]))
from support import forkserver
from support.doc_pages import Block, blocks
from support.output_matching import masked, output_matches
from support.waiting import WAIT_SECONDS

STAYING = {"worker", "keeper", "up", "server"}
DRAWN = {"text", "mermaid"}
SHELL = re.compile(r"""[|&;<>$`*\\\n(){}]""")
QUOTED = re.compile("'[^']*'")
"""Which no shell looks into."""


class PageError(Exception):
    """The page cannot be run."""


class Difference(PageError):
    """The page shows other output than what comes. The blocks behind it are run all the same."""


class Page:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._namespace: dict[str, Any] = {"__name__": "page"}
        self._printed: str | None = None
        self._staying: list[LongRunningCommand] = []
        self._differences: list[str] = []

    def run(self) -> int:
        """Runs every block; returns how many there were to run."""
        asyncio.set_event_loop(self._loop)
        done = 0
        try:
            for block in blocks(self._path):
                done += self._block(block)
            for command in self._staying:
                command.end(signal.SIGTERM)
            if self._differences:
                raise PageError("\n\n".join(self._differences))
        finally:
            for command in self._staying:
                command.kill()
            self._loop.close()
        return done

    def _block(self, block: Block) -> bool:
        if block.not_run:
            return False
        printed, self._printed = self._printed, None
        try:
            if block.file_name is not None:
                compile(block.text, block.file_name, "exec") if block.language == "python" else None
                Path(block.file_name).write_text(block.text)
            elif block.language == "text" and printed is not None:
                _compare(block.text, printed)
            elif block.language not in DRAWN:
                getattr(self, f"_{block.language}", self._unknown)(block)
            else:
                return False
        except Difference as error:
            self._differences.append(f"{self._path.name}:{block.line}: {error}")
        except Exception as error:
            raise PageError(f"{self._path.name}:{block.line}: {error}") from error
        return True

    def _unknown(self, block: Block) -> None:
        raise PageError(f"nothing runs {block.language or 'a block without a language'!r}: say why not")

    def _python(self, block: Block) -> None:
        text = "\n" * (block.line - 1) + block.text
        code = compile(text, str(self._path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            result = eval(code, self._namespace)
            if inspect.iscoroutine(result):
                self._loop.run_until_complete(asyncio.wait_for(result, WAIT_SECONDS))
        self._printed = output.getvalue()

    def _sql(self, block: Block) -> None:
        with psycopg.connect(database_url(load_settings()), autocommit=True) as connection:
            cursor = connection.execute(block.text)
            while cursor.nextset():
                pass
            self._printed = _as_psql(cursor)

    def _toml(self, block: Block) -> None:
        folder = Path("settings")
        folder.mkdir(exist_ok=True)
        (folder / "posthouse.toml").write_text(block.text)
        load_settings(env={}, directory=folder)

    def _console(self, block: Block) -> None:
        if block.text.startswith("^C\n"):
            self._staying[-1].end(signal.SIGINT)
            return
        for line, output in _commands(block.text):
            command = line.replace("\\\n", "")
            words = shlex.split(command)
            if words[0] == "posthouse" and words[1] in STAYING and "--help" not in words:
                self._stay(words, output)
                continue
            done = _run(command, words)
            _compare(output, _without_location(done.stdout + done.stderr))

    def _stay(self, words: list[str], output: str) -> None:
        command = LongRunningCommand(words)
        self._staying.append(command)
        first, interrupt, rest = output.partition("^C\n")
        try:
            command.until(first)
        except Difference as error:  # what comes behind needs it: its port may be taken
            raise PageError(f"it did not start as shown: {error}") from None
        if interrupt:
            command.end(signal.SIGINT)
            command.until(f"{first}…{rest}")


class LongRunningCommand:
    """A command that runs until it is told to stop."""

    def __init__(self, words: list[str]) -> None:
        self._output = b""
        screen, terminal = pty.openpty()
        self._process = forkserver.start_python(["-m", *words], stdout=terminal, stderr=terminal)
        os.close(terminal)
        self._reader = threading.Thread(target=self._read, args=(screen,), daemon=True)
        self._reader.start()

    def _read(self, screen: int) -> None:
        with contextlib.suppress(OSError):  # the other side is closed
            while data := os.read(screen, 4096):
                self._output += data
        os.close(screen)

    @property
    def output(self) -> str:
        return _without_location(self._output.decode().replace("\r", ""))

    def until(self, shown: str) -> None:
        """Waits until it has put out what is shown, at least."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not output_matches(f"{shown}…", self.output):
            if time.monotonic() > deadline or self._process.poll() is not None:
                _compare(f"{shown}…", self.output)
                return
            time.sleep(0.02)

    def end(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
        code = self._process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        if code != 0:
            raise PageError(f"it ended with {code}:\n{self.output}")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _without_location(output: str) -> str:
    """The output on a system where the embedded Postgres need not choose another folder."""
    lines = output.splitlines(keepends=True)
    return "".join(line for line in lines if "the embedded Postgres stores its data in" not in line)


def _run(command: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    if words[0] == "posthouse" and not SHELL.search(QUOTED.sub("", command.strip())):
        return forkserver.run_posthouse(words[1:], folder=Path.cwd(), env=os.environ, seconds=WAIT_SECONDS)
    return subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )


def _commands(text: str) -> list[tuple[str, str]]:
    """Each command with the output below it."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        if found and found[-1][0].endswith("\\\n"):
            found[-1] = (found[-1][0] + line, "")
        elif line.startswith("$ "):
            found.append((line[2:], ""))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line)
        else:
            raise PageError(f"a console block starts with a command, not with {line!r}")
    return found


def _as_psql(cursor: psycopg.Cursor[Any]) -> str:
    if cursor.description is None:
        return ""
    rows = [["" if value is None else _shown(value) for value in row] for row in cursor.fetchall()]
    lines = [" | ".join(column.name for column in cursor.description)]
    lines += ["-+-".join("--" for _ in cursor.description), *(" | ".join(row) for row in rows)]
    return "\n".join([*lines, f"({len(rows)} row{'s' * (len(rows) != 1)})"])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, dict):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _compare(shown: str, real: str) -> None:
    if not output_matches(shown, real):
        parts = ("the page shows", masked(shown), "but this came", masked(real), "as it is", real)
        raise Difference("\n".join(parts))


def main() -> None:
    sys.path.insert(0, "")
    warnings.simplefilter("error")
    forkserver.install_commands()
    try:
        done = Page(Path(sys.argv[1])).run()
    except Exception:  # noqa: BLE001 - told below
        traceback.print_exc()
        sys.stderr.flush()
        close_embedded()
        os._exit(1)  # what the page left open would only add noise
    sys.stdout.write(f"{done} blocks ran\n")


if __name__ == "__main__":
    main()
