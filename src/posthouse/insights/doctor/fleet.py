"""Whether there is a worker for every job."""

from __future__ import annotations

from typing import Any

from posthouse.insights.doctor.finding import Finding, Patient, ok
from posthouse.insights.fleet import workers
from posthouse.storage.reading import fetch_rows

MOST_JOBS = 10_000


async def dead_workers(patient: Patient) -> Finding:
    """No worker left without signing off."""
    found = await workers(
        patient.connection,
        offline_after=patient.settings.lease_seconds,
        offline_within=patient.thresholds.died_within_seconds,
    )
    dead = [worker for worker in found if worker.died]
    if not dead:
        alive = sum(worker.status != "offline" for worker in found)
        return ok(f"{alive} worker(s) alive, none died lately")
    names = ", ".join(worker.name for worker in dead[:5])
    return Finding(
        severity="warning",
        summary=f"{len(dead)} worker(s) died lately: {names}",
        meaning="They stopped without signing off: killed, out of memory, crashed, or cut off from Postgres. "
        "Their jobs were given to others.",
        advice="Look at their logs, and at the machine's (out of memory?); "
        "jobs that kill their worker end in the dead letter: posthouse jobs list --status dead_letter",
        evidence=[
            {"id": worker.id, "name": worker.name, "pid": worker.pid, "heartbeat_at": worker.heartbeat_at}
            for worker in dead
        ],
    )


async def unserved(patient: Patient) -> Finding:
    """Every job that could start has a live worker that knows it."""
    lines = [line for line in await _lines(patient) if not line["workers"]]
    if not lines:
        return ok("every job that could start has a worker that knows it")
    waited = max(line["waited_seconds"] for line in lines)
    names = ", ".join(f"{_named(line)} in {line['queue']} ({_count(line)})" for line in lines[:5])
    return Finding(
        severity="error" if waited >= patient.thresholds.stuck_seconds else "warning",
        summary=f"no live worker serves {names}",
        meaning="These jobs wait until a worker comes that serves their queue, knows their kind, offers what "
        "they require, and is not disabled.",
        advice="Start one whose app defines them: posthouse worker --app module:app; "
        "posthouse jobs why ID says what is missing.",
        evidence=lines,
    )


async def stuck(patient: Patient) -> Finding:
    """Queues that have workers move, unless they are paused or at a limit."""
    limit = patient.thresholds.stuck_seconds
    old = [
        line
        for line in await _lines(patient)
        if line["workers"] and line["waited_seconds"] >= limit and not (line["paused"] or line["limited"])
    ]
    if old:
        moving = {row["queue"] for row in await fetch_rows(patient.connection, "doctor_claims", within=limit)}
        old = [line for line in old if line["queue"] not in moving]
    if not old:
        return ok("every queue that has workers moves")
    full = all(line["free"] == 0 for line in old)
    names = ", ".join(sorted({line["queue"] for line in old}))
    return Finding(
        severity="warning" if full else "error",
        summary=f"nothing was claimed for {limit:g} s from queue(s) {names}, where jobs are ready",
        meaning="All of their workers are full with long jobs."
        if full
        else "Workers that serve them are alive and have free slots, yet they take nothing.",
        advice="Start more workers, or raise their concurrency."
        if full
        else "Look at the workers' logs, and for locks: select * from pg_locks where not granted;",
        evidence=old,
    )


async def _lines(patient: Patient) -> list[dict[str, Any]]:
    return await fetch_rows(
        patient.connection,
        "doctor_lines",
        offline_after=patient.settings.lease_seconds,
        limit=MOST_JOBS,
    )


def _named(line: dict[str, Any]) -> str:
    return str(line["kind"]) + (f" with {', '.join(line['requires'])}" if line["requires"] else "")


def _count(line: dict[str, Any]) -> str:
    return f"{MOST_JOBS:,} or more" if line["jobs"] >= MOST_JOBS else f"{line['jobs']:,}"
