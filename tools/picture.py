#!/usr/bin/env python3
"""Draw docs/pictures/terminal.svg from a real run: ``python tools/picture.py``.

A worker runs the jobs of docpages.scene in a new database; then the commands run in a terminal, and their
output is drawn. Uses the configured Postgres, or the embedded one.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from docpages import scene
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from posthouse import testing

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "pictures" / "terminal.svg"
WIDTH = 132
JOBS = 8
SECONDS = 30
COMMANDS = ("posthouse queues", "posthouse jobs list", "posthouse jobs why {publish}")


def main() -> None:
    with testing.database() as url:
        os.environ |= {"POSTHOUSE_DATABASE_URL": url, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
        worker = subprocess.Popen(
            ["posthouse", "worker", "--app", "docpages.scene:app"],  # noqa: S607 - the one of this environment
            cwd=HERE,
            stdout=subprocess.DEVNULL,
        )
        try:
            asyncio.run(scene.fill())
            jobs = _settled(url)
            outputs = [(command.format(**jobs), _run(command.format(**jobs))) for command in COMMANDS]
        finally:
            worker.kill()  # its long job would delay the shutdown
            worker.wait()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(_drawn(outputs))
    sys.stdout.write(f"{PICTURE}\n")


def _settled(url: str) -> dict[str, str]:
    """Return the id of one job of each kind, after the worker has finished what it can."""
    deadline = time.monotonic() + SECONDS
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < deadline:
            rows = connection.execute(
                "select kind, id::text, job_table, progress_percent is not null from posthouse.jobs"
            ).fetchall()
            ready = any(
                job_table == "ready" or (job_table == "running" and not moved)
                for _, _, job_table, moved in rows
            )
            if len(rows) == JOBS and not ready:
                return {kind: job_id for kind, job_id, _, _ in rows}
            time.sleep(0.05)
    raise TimeoutError("the worker did not do its jobs")


def _run(command: str) -> str:
    """Return the output of a command in a terminal."""
    screen, terminal = pty.openpty()
    with subprocess.Popen(command.split(), stdout=terminal, stderr=terminal) as process:  # noqa: S603 - ours
        os.close(terminal)
        output = b""
        with suppress(OSError):  # the other side is closed
            while data := os.read(screen, 65536):
                output += data
        os.close(screen)
    if process.returncode:
        raise RuntimeError(output.decode())
    return output.decode().replace("\r", "")


def _drawn(outputs: list[tuple[str, str]]) -> str:
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        for command, output in outputs:
            console.print(Text.assemble(("$ ", "green"), (command, "bold")))
            console.print(Text.from_ansi(output.rstrip("\n")))
            console.print()
        svg = console.export_svg(title="posthouse", theme=MONOKAI, unique_id="terminal")
    # Use the fonts of the reader instead of downloading some.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    main()
