"""Checks of the schema, the keeper, leases, workers and the relay."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from posthouse.core.definition import is_own
from posthouse.dispatch import HintStreams, Redis, redis_of
from posthouse.errors import ConfigurationError, RedisUnavailable
from posthouse.insights.doctor.report import CheckContext, Finding, ok
from posthouse.insights.fleet import workers
from posthouse.storage.migrations import code_version, required_schema, version_key, why_incompatible
from posthouse.storage.queries import database_now, fetch_row, fetch_rows, fetch_value
from posthouse.storage.schema import functions_digest, migrations

MAX_LEASES = 20


async def schema(context: CheckContext) -> Finding:
    """Check that the database schema matches this version of Posthouse."""
    if not await fetch_value(context.connection, "schema_exists"):
        return Finding(
            severity="error",
            summary="this database has no Posthouse schema",
            meaning="Workers do not start, and enqueue fails.",
            advice="Run: posthouse migrate",
        )
    row = await fetch_row(context.connection, "schema_version")
    number, known = row["number"], migrations()[-1].number
    reason = why_incompatible(number, row["lowest_codes"])
    if reason is not None:
        return Finding(
            severity="error",
            summary=reason.rpartition(":")[0],
            meaning="Workers of this version do not start, and enqueue may fail.",
            advice="Run: posthouse migrate" if number < required_schema() else "Upgrade Posthouse.",
        )
    installed = await fetch_row(context.connection, "functions_installed")
    is_older = version_key(installed["version"]) <= version_key(code_version())
    if number < known or (number == known and is_older and installed["digest"] != functions_digest()):
        return Finding(
            severity="warning",
            summary=f"schema version {number} is older than this version of Posthouse, which works with it",
            meaning="Corrections and features of this version that need the newer schema are missing.",
            advice="Run: posthouse migrate",
        )
    return ok(f"schema version {number}" + (", of a newer version of Posthouse" if number > known else ""))


async def clock(context: CheckContext) -> Finding:
    """Check that the clocks of the database and this machine agree."""
    before = datetime.now(UTC)
    there = await database_now(context.connection)
    after = datetime.now(UTC)
    # The database answered between the two local readings: only a time outside of them is a difference.
    ahead = max((there - after).total_seconds(), 0.0) or min((there - before).total_seconds(), 0.0)
    if abs(ahead) < context.thresholds.clock_seconds:
        return ok("the clocks of the database and this machine agree")
    where = "ahead of" if ahead > 0 else "behind"
    return Finding(
        severity="warning",
        summary=f"the clock of the database is {abs(ahead):,.1f} s {where} the clock of this machine",
        meaning="Jobs start by the clock of the database: times computed on this machine "
        "are early or late by that much.",
        advice="Synchronize both clocks with NTP.",
        evidence=[{"database": there, "machine": after, "ahead_seconds": ahead}],
    )


async def keeper(context: CheckContext) -> Finding:
    """Check that a keeper promotes due jobs and rescues lost ones."""
    row = await fetch_row(
        context.connection, "doctor_keepers", grace=context.thresholds.overdue_seconds, limit=MAX_JOBS
    )
    late = f"; {row['overdue']:,} job(s) are overdue" if row["overdue"] else ""
    if row["sessions"] and not late:
        return ok("a keeper is connected")
    if row["sessions"]:
        return Finding(
            severity="warning",
            summary=f"a keeper is connected, but it is behind{late}",
            meaning="Scheduled jobs and retries start later than they should.",
            advice="Check the keeper's log, and locks and load in Postgres.",
            evidence=[row],
        )
    return Finding(
        severity="error" if late else "warning",
        summary=f"no keeper is connected{late}",
        meaning="Scheduled jobs and retries do not start, and the jobs of dead workers are not rescued.",
        advice="Start a keeper: posthouse keeper (or a worker without --no-keeper).",
        evidence=[row],
    )


async def leases(context: CheckContext) -> Finding:
    """Check that workers renew the leases of all running jobs."""
    expired = await fetch_rows(
        context.connection,
        "doctor_expired_leases",
        grace=context.thresholds.lease_grace_seconds,
        limit=MAX_LEASES,
    )
    if not expired:
        return ok("the leases of all running jobs are being renewed")
    count = f"{len(expired)}" if len(expired) < MAX_LEASES else f"{MAX_LEASES} or more"
    first = expired[0]
    return Finding(
        severity="error",
        summary=f"{count} lease(s) have expired and were not rescued; "
        f"the oldest is {first['kind']} {first['id']}, {first['expired_seconds']:.0f} s ago",
        meaning="No worker is running these jobs, and no keeper has rescued them.",
        advice="Start a keeper: posthouse keeper",
        evidence=expired,
    )


MAX_JOBS = 10_000


async def dead_workers(context: CheckContext) -> Finding:
    """Check that no worker disconnected without shutting down."""
    found = await workers(
        context.connection,
        offline_after=context.settings.offline_after,
        offline_within=context.thresholds.lost_within_seconds,
    )
    dead = [worker for worker in found if worker.lost]
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


async def unserved(context: CheckContext) -> Finding:
    """Check that every ready job has a live worker that can run it."""
    lines = [line for line in await _ready_groups(context) if not line["workers"]]
    return unserved_finding(lines) if lines else ok("every ready job has a live worker that can run it")


def unserved_finding(lines: list[dict[str, Any]]) -> Finding:
    """Return the finding about lanes that no live worker can run."""
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


async def stuck(context: CheckContext) -> Finding:
    """Check that jobs are claimed from every queue that has workers, unless it is paused or limited."""
    limit = context.thresholds.stuck_seconds
    old = [
        line
        for line in await _ready_groups(context)
        if line["workers"] and line["waited_seconds"] >= limit and not (line["paused"] or line["limited"])
    ]
    if old:
        moving = {
            row["queue"]
            for row in await fetch_rows(context.connection, "doctor_claimed_queues", within=limit)
        }
        old = [line for line in old if line["queue"] not in moving]
    return stuck_finding(old, limit) if old else ok("jobs are claimed from every queue that has workers")


def stuck_finding(old: list[dict[str, Any]], limit: float) -> Finding:
    """Return the finding about lanes from which no job was claimed for ``limit`` seconds."""
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


async def _ready_groups(context: CheckContext) -> list[dict[str, Any]]:
    return await fetch_rows(
        context.connection,
        "doctor_waiting",
        offline_after=context.settings.offline_after,
        limit=MAX_JOBS,
    )


def _named(line: dict[str, Any]) -> str:
    return str(line["kind"]) + (f" with {', '.join(line['requires'])}" if line["requires"] else "")


def _detail(line: dict[str, Any]) -> str:
    undefined = not line["defined"] and not is_own(line["kind"])
    return _count(line) + (", no definition" if undefined else "")


def _count(line: dict[str, Any]) -> str:
    return f"{MAX_JOBS:,} or more" if line["jobs"] >= MAX_JOBS else f"{line['jobs']:,}"


async def dispatch(context: CheckContext) -> Finding:
    """Check that Redis is reachable and a relay writes hints, if dispatch uses Redis."""
    mode = context.settings.dispatch
    try:
        redis = redis_of(context.settings)
    except ConfigurationError as error:
        return _unusable(mode, str(error))
    if redis is None:
        return ok("database mode: LISTEN/NOTIFY and polling")
    try:
        return await _examine(redis, mode)
    except RedisUnavailable as error:
        return _unusable(mode, str(error))
    finally:
        await redis.close()


async def _examine(redis: Redis, mode: str) -> Finding:
    streams = HintStreams(redis)
    info, (relay, _) = await streams.server_info(), await streams.relay()
    version = info.get("valkey_version") or info.get("redis_version", "of unknown version")
    summary = f"{mode} mode: Redis {version} uses {info.get('used_memory_human', 'unknown')} of memory"
    if relay:
        return ok(f"{summary}, relay {relay}")
    return Finding(
        severity="warning",
        summary=f"{mode} mode: no relay writes hints to Redis",
        meaning="Idle workers find new jobs only when they poll, every 30 seconds.",
        advice="Start a keeper with the same POSTHOUSE_DISPATCH and POSTHOUSE_REDIS_URL: `posthouse keeper`.",
    )


def _unusable(mode: str, reason: str) -> Finding:
    falls_back = mode == "hybrid"
    severity: Literal["warning", "error"] = "warning" if falls_back else "error"
    return Finding(
        severity=severity,
        summary=reason,
        meaning="Workers poll Postgres instead; jobs start up to a second later."
        if falls_back
        else "Running workers find new jobs only when they poll, every 30 seconds; workers cannot start.",
        advice="Check that Redis runs and that POSTHOUSE_REDIS_URL is correct: `posthouse config`.",
    )
