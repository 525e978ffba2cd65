"""Compute how long a worker may be silent, and find the jobs that block a silent worker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from posthouse.settings import Settings

SAMPLE_SECONDS = 0.3
SAMPLES = 3
_TICKS = 2  # of the kernel's clock, usually 10 ms each
_SHARE = 0.7
_STATE, _USER_TIME, _SYSTEM_TIME = 0, 11, 12
_STOPPED = "T"


async def find_blockers(pid: int, running: Mapping[int, Sequence[UUID]]) -> Sequence[UUID] | None:
    """Return the jobs that block the process ``pid``; None if it could be any of its jobs.

    ``running`` are the jobs whose handlers run, by thread, the event loop first. The thread that uses the
    CPU time of the process holds the interpreter's lock, and its jobs are the blockers. If no thread uses CPU
    time, the blockers are the jobs in the event loop, or those of the only thread with jobs. A process that
    was stopped by a signal has no blockers.
    """
    before = _thread_times(pid)
    for _ in range(SAMPLES):
        await asyncio.sleep(SAMPLE_SECONDS)
        after = _thread_times(pid)
        if after.get(pid, ("", 0))[0] == _STOPPED:
            return []
        used = {thread: after[thread][1] - before[thread][1] for thread in after.keys() & before.keys()}
        busiest = max(used, key=lambda thread: used[thread], default=0)
        if used and used[busiest] >= max(_TICKS, _SHARE * sum(used.values())):
            return running.get(busiest) or None
    loop, *threads = running.values() if running else ((),)
    with_jobs = [loop] if loop else [jobs for jobs in threads if jobs]
    return with_jobs[0] if len(with_jobs) == 1 else None


def _thread_times(pid: int) -> dict[int, tuple[str, int]]:
    """Return the state and the CPU time of each thread; empty on systems without /proc."""
    found: dict[int, tuple[str, int]] = {}
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # the thread has ended
        fields = text[text.rindex(")") + 2 :].split()
        found[int(folder.name)] = (fields[_STATE], int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME]))
    return found


MAX_TICK = 1.0
MIN_TICK = 0.1


def silence_limit(settings: Settings) -> float:
    """Return how long a child may be silent.

    A stuck child is killed before its leases expire; otherwise all its jobs would count a crash. A heartbeat
    renews only leases that are older than half an interval.
    """
    lasts = settings.lease_seconds - 1.5 * settings.heartbeat_seconds
    return max(0.85 * lasts - SAMPLE_SECONDS, 4 * MIN_TICK)


def tick_seconds(settings: Settings) -> float:
    """Return how often a child reports that it runs, and how often the supervisor checks that.

    The interval is a small share of the limit, so that a stuck child is killed before its leases expire: the
    supervisor may notice the start of the silence one tick late, and the end of the limit another tick late.
    """
    return max(MIN_TICK, min(MAX_TICK, silence_limit(settings) / 16))
