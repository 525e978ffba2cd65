"""The result of the crash demo, and how it is shown."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

import typer


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was injected, and when, in seconds since the first job was enqueued."""

    at: float
    what: str


@dataclass(slots=True)
class DemoReport:
    """The state of the demo, updated while it runs."""

    jobs: int
    effects: int = 0
    doubled: int = 0
    longest_pause: float = 0.0
    """The longest time between two commits of effects, in seconds."""
    seconds: float = 0.0
    interrupted: int = 0
    """Attempts that a fault ended; each of them ran again."""
    statuses: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    postgres: str = "running"

    @property
    def missing(self) -> int:
        return self.jobs - (self.effects - self.doubled)

    @property
    def exact(self) -> bool:
        return self.missing == 0 and self.doubled == 0

    @property
    def done(self) -> bool:
        """Whether every job has ended."""
        ended = sum(
            self.statuses.get(status, 0) for status in ("succeeded", "failed", "dead_letter", "canceled")
        )
        return ended >= self.jobs

    def __str__(self) -> str:
        missing = f", {self.missing:,} missing" if self.missing else ""
        return (
            f"{self.effects - self.doubled:,} of {self.jobs:,} effects{missing}, {self.doubled:,} doubled, "
            f"longest pause {self.longest_pause:.1f} s"
        )

    def as_json(self) -> dict[str, object]:
        return {
            "jobs": self.jobs,
            "effects": self.effects,
            "missing": self.missing,
            "doubled": self.doubled,
            "exact": self.exact,
            "longest_pause_seconds": round(self.longest_pause, 3),
            "interrupted_attempts": self.interrupted,
            "seconds": round(self.seconds, 1),
            "statuses": self.statuses,
            "faults": [{"at_seconds": round(fault.at, 2), "fault": fault.what} for fault in self.faults],
        }


BAR = 40


class CrashScreen(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def show(self, report: DemoReport) -> None: ...


def make_screen() -> CrashScreen:
    return LiveTable() if sys.stderr.isatty() else Lines()


class Lines:
    """A line for each fault and each tenth of the work."""

    def __init__(self) -> None:
        self._faults = 0
        self._tenths = -1

    def __enter__(self) -> Self:
        typer.echo("starting a temporary Postgres and two workers", err=True)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, report: DemoReport) -> None:
        for fault in report.faults[self._faults :]:
            typer.echo(f"{fault.at:5.1f} s  {fault.what}", err=True)
        self._faults = len(report.faults)
        tenths = 10 * report.effects // report.jobs
        if tenths > self._tenths:
            self._tenths = tenths
            typer.echo(f"{report.seconds:5.1f} s  {report.effects:,} of {report.jobs:,} effects", err=True)


class LiveTable:
    """A table that is drawn again with each report."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - slow to load
        from rich.live import Live  # noqa: PLC0415

        self._live = Live(
            "Starting a temporary Postgres and two workers …",
            console=Console(stderr=True),
            refresh_per_second=10,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, report: DemoReport) -> None:
        self._live.update(_table(report))


def _table(report: DemoReport) -> Any:
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=f"Crash demo, {report.seconds:.1f} s", title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(min_width=BAR + 24)
    full = BAR * report.effects // report.jobs
    table.add_row("Effects", f"{'█' * full}{'░' * (BAR - full)} {report.effects:,} of {report.jobs:,}")
    table.add_row("Doubled", f"{report.doubled:,}")
    statuses = ("queued", "running", "succeeded", "failed", "dead_letter")
    counts = [f"{status} {report.statuses[status]:,}" for status in statuses if report.statuses.get(status)]
    table.add_row("Jobs", " · ".join(counts) or "none yet")
    table.add_row("Postgres", report.postgres)
    table.add_row("Longest pause", f"{report.longest_pause:.1f} s")
    faults = [f"{fault.at:5.1f} s  {fault.what}" for fault in report.faults]
    table.add_row("Faults", "\n".join(faults) or "none yet")
    return table
