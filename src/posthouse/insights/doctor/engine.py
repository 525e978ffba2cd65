"""The schema, the clock, and the keeper's work."""

from __future__ import annotations

from datetime import UTC, datetime

from posthouse.insights.doctor.finding import Finding, Patient, ok
from posthouse.insights.overview import database_now
from posthouse.storage.migrations import code_version, required_schema, version_key, why_incompatible
from posthouse.storage.queries import fetch_row, fetch_rows, fetch_value
from posthouse.storage.schema import functions_digest, migrations

MOST_JOBS = 10_000
MOST_LEASES = 20


async def schema(patient: Patient) -> Finding:
    """The database schema matches this version of Posthouse."""
    if not await fetch_value(patient.connection, "schema_exists"):
        return Finding(
            severity="error",
            summary="this database has no Posthouse schema",
            meaning="Workers do not start, and enqueue fails.",
            advice="Run: posthouse migrate",
        )
    row = await fetch_row(patient.connection, "schema_version")
    number, known = row["number"], migrations()[-1].number
    reason = why_incompatible(number, row["lowest_codes"])
    if reason is not None:
        return Finding(
            severity="error",
            summary=reason.rpartition(":")[0],
            meaning="Workers of this version do not start, and enqueue may fail.",
            advice="Run: posthouse migrate" if number < required_schema() else "Upgrade Posthouse.",
        )
    installed = await fetch_row(patient.connection, "functions_installed")
    is_older = version_key(installed["version"]) <= version_key(code_version())
    if number < known or (number == known and is_older and installed["digest"] != functions_digest()):
        return Finding(
            severity="warning",
            summary=f"schema version {number} is older than this version of Posthouse, which works with it",
            meaning="Corrections and features of this version that need the newer schema are missing.",
            advice="Run: posthouse migrate",
        )
    return ok(f"schema version {number}" + (", of a newer version of Posthouse" if number > known else ""))


async def clock(patient: Patient) -> Finding:
    """The clocks of the database and this machine agree."""
    before = datetime.now(UTC)
    there = await database_now(patient.connection)
    after = datetime.now(UTC)
    # It was asked somewhere between the two looks at our own clock: only what lies outside them counts.
    ahead = max((there - after).total_seconds(), 0.0) or min((there - before).total_seconds(), 0.0)
    if abs(ahead) < patient.thresholds.clock_seconds:
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


async def keeper(patient: Patient) -> Finding:
    """A keeper promotes due jobs and rescues lost ones."""
    row = await fetch_row(
        patient.connection, "doctor_keepers", grace=patient.thresholds.overdue_seconds, limit=MOST_JOBS
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


async def leases(patient: Patient) -> Finding:
    """Workers renew the leases of all running jobs."""
    expired = await fetch_rows(
        patient.connection, "doctor_leases", grace=patient.thresholds.lease_grace_seconds, limit=MOST_LEASES
    )
    if not expired:
        return ok("the leases of all running jobs are being renewed")
    count = f"{len(expired)}" if len(expired) < MOST_LEASES else f"{MOST_LEASES} or more"
    first = expired[0]
    return Finding(
        severity="error",
        summary=f"{count} lease(s) have expired and were not rescued; "
        f"the oldest is {first['kind']} {first['id']}, {first['expired_seconds']:.0f} s ago",
        meaning="No worker is running these jobs, and no keeper has rescued them.",
        advice="Start a keeper: posthouse keeper",
        evidence=expired,
    )
