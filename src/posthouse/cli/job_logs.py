"""posthouse jobs logs: the log and output of a job, live."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.guarding import WrongUsage
from posthouse.cli.job_ids import HELP, find_job, job_reference
from posthouse.cli.output import one_line_json, say, show_json

if TYPE_CHECKING:
    from posthouse.insights import LogLine, WhichAttempt

_STYLES = {"warning": "yellow", "error": "red", "critical": "bold red", "debug": "dim"}


def logs(
    job: str = typer.Argument(..., metavar="ID", help=HELP),
    *,
    follow: bool = typer.Option(False, "--follow", "-f", help="Print new lines until the job finishes."),
    attempt: str | None = typer.Option(
        None, metavar="N", help="Only this attempt, e.g. 2, or 1.2 for the second attempt of the first run."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print one JSON document to stdout; with --follow one per log line."
    ),
) -> None:
    """Show the log, stdout and stderr of a job.

    [b]Example:[/b]  posthouse jobs logs --follow "$(posthouse enqueue report)"
    """
    from posthouse import insights
    from posthouse.cli.session import read

    wanted, which = job_reference(job), _which(attempt)
    found: list[LogLine] = []

    async def look(db: Any, _: Any) -> None:
        pages = insights.follow_log(db, await find_job(db, wanted), which=which, to_the_end=follow)
        async for lines in pages:
            if as_json and not follow:
                found.extend(lines)
                continue
            for line in lines:
                _show(line, as_json=as_json)
            sys.stdout.flush()

    read(look, direct=True)
    if as_json and not follow:
        show_json(found)


def _show(line: LogLine, *, as_json: bool) -> None:
    if as_json:
        typer.echo(one_line_json(line))
        return
    say(f"{line.at.astimezone():%H:%M:%S}  ", style="dim", end="")
    mark = "" if line.stream == "log" else f"{line.stream}: "
    style = _STYLES.get(line.level or "", "magenta" if line.stream == "stderr" else "")
    say(f"{mark}{line.text}", style=style)


def _which(text: str | None) -> WhichAttempt:
    from posthouse.insights import WhichAttempt

    if text is None:
        return WhichAttempt()
    match = re.fullmatch(r"(?:(\d{1,9})\.)?(\d{1,9})", text)
    if match is None:
        raise WrongUsage(f"invalid --attempt {text!r}: expected a number like 2, or 1.2 with its run")
    return WhichAttempt(int(match[2]), None if match[1] is None else int(match[1]))
