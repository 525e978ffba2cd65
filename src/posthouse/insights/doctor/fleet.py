"""Whether there is a worker for every job."""

from __future__ import annotations

from typing import Any

from posthouse.core.definition import is_own
from posthouse.insights.doctor.finding import Finding, Patient, ok
from posthouse.insights.fleet import workers
from posthouse.storage.queries import fetch_rows

MOST_JOBS = 10_000


async def dead_workers(patient: Patient) -> Finding:
    """No worker disconnected without shutting down."""
    found = await workers(
        patient.connection,
        offline_after=patient.settings.offline_after,
        offline_within=patient.thresholds.died_within_seconds,
    )
    dead = [worker for worker in found if worker.died]
    if not dead:
        alive = sum(worker.status != "offline" for worker in found)
        return ok(f"{alive} worker(s) alive, none lost recently")
    names = ", ".join(worker.name for worker in dead[:5])
    return Finding(
        severity="warning",
        summary=f"{len(dead)} worker(s) lost recently: {names}",
        meaning="They disconnected without shutting down: killed, out of memory, crashed or cut off. "
        "Their jobs were rescued.",
        advice="Check their logs and the machine's log (out of memory?); "
        "jobs that kill their worker become dead letters: posthouse jobs list --status dead_letter",
        evidence=[
            {"id": worker.id, "name": worker.name, "pid": worker.pid, "heartbeat_at": worker.heartbeat_at}
            for worker in dead
        ],
    )


async def unserved(patient: Patient) -> Finding:
    """Every ready job has a live worker that can run it."""
    lines = [line for line in await _lines(patient) if not line["workers"]]
    if not lines:
        return ok("every ready job has a live worker that can run it")
    names = ", ".join(f"{_named(line)} in {line['queue']} ({_detail(line)})" for line in lines[:5])
    return Finding(
        severity="warning",  # never an error: a tenant can enqueue jobs that no worker runs
        summary=f"no live worker can run {names}",
        meaning="These jobs wait for a worker that serves their queue, has a handler for their kind, has the "
        "required capabilities and is not disabled. No worker has announced a kind that has no definition.",
        advice="Start a worker whose app defines them: posthouse worker --app module:app; "
        "posthouse jobs why ID shows what is missing.",
        evidence=lines,
    )


async def stuck(patient: Patient) -> Finding:
    """Jobs are claimed from every queue that has workers, unless it is paused or limited."""
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
        return ok("jobs are claimed from every queue that has workers")
    full = all(line["free"] == 0 for line in old)
    names = ", ".join(sorted({line["queue"] for line in old}))
    return Finding(
        severity="warning" if full else "error",
        summary=f"no job was claimed for {limit:g} s from queue(s) {names}, although jobs are ready",
        meaning="All slots of their workers are busy."
        if full
        else "Live workers with free slots serve them, but claim nothing.",
        advice="Start more workers, or raise their concurrency."
        if full
        else "Check the workers' logs and locks: select * from pg_locks where not granted;",
        evidence=old,
    )


async def _lines(patient: Patient) -> list[dict[str, Any]]:
    return await fetch_rows(
        patient.connection,
        "doctor_lines",
        offline_after=patient.settings.offline_after,
        limit=MOST_JOBS,
    )


def _named(line: dict[str, Any]) -> str:
    return str(line["kind"]) + (f" with {', '.join(line['requires'])}" if line["requires"] else "")


def _detail(line: dict[str, Any]) -> str:
    undefined = not line["defined"] and not is_own(line["kind"])
    return _count(line) + (", no definition" if undefined else "")


def _count(line: dict[str, Any]) -> str:
    return f"{MOST_JOBS:,} or more" if line["jobs"] >= MOST_JOBS else f"{line['jobs']:,}"
