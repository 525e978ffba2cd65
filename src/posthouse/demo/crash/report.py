"""What the crash demo counts and measures."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was injected, and when, in seconds since the first job was enqueued."""

    at: float
    what: str


@dataclass(slots=True)
class Report:
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
