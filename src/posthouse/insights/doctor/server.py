"""The Postgres server and the way to it."""

from __future__ import annotations

from posthouse.insights.doctor.finding import Finding, Patient, ok
from posthouse.storage.connect import behind_pooler, connect_async
from posthouse.storage.reading import fetch_row

OLDEST_VERSION = 150_000


async def version(patient: Patient) -> Finding:
    """Postgres is one that we are tested with."""
    row = await fetch_row(patient.connection, "doctor_server")
    if row["number"] >= OLDEST_VERSION:
        return ok(f"Postgres {row['version']}")
    return Finding(
        severity="error",
        summary=f"Postgres {row['version']} is older than 15",
        meaning="Posthouse uses what came with Postgres 15; some of its functions will fail.",
        advice="Upgrade Postgres to 15 or newer.",
        evidence=[row],
    )


async def durability(patient: Patient) -> Finding:
    """What was accepted survives a crash."""
    row = await fetch_row(patient.connection, "doctor_durability")
    off = [name for name in ("fsync", "full_page_writes") if not row[name]]
    if off:
        return Finding(
            severity="error",
            summary=f"{' and '.join(off)} off",
            meaning="After a power cut or a crash of the machine the database may be damaged beyond repair.",
            advice=f"Switch it on: alter system set {off[0]} = on; select pg_reload_conf();",
            evidence=[row],
        )
    if row["synchronous_commit"] == "off":
        return Finding(
            severity="warning",
            summary="synchronous_commit is off",
            meaning="A crash of Postgres loses the last moments: accepted jobs among them.",
            advice="Switch it on for the role or database that Posthouse uses, "
            "or accept that an enqueue may be lost.",
            evidence=[row],
        )
    return ok("what was accepted is on disk")


async def connections(patient: Patient) -> Finding:
    """There is room for more connections."""
    row = await fetch_row(patient.connection, "doctor_connections")
    share = row["used"] / max(1, row["allowed"])
    summary = f"{row['used']} of {row['allowed']} connections in use"
    if share < patient.thresholds.connections_warning:
        return ok(summary)
    return Finding(
        severity="error" if share >= patient.thresholds.connections_error else "warning",
        summary=summary,
        meaning="When none is left, workers cannot reconnect and enqueue fails.",
        advice="Find who holds them (select application_name, count(*) from pg_stat_activity group by 1), "
        "raise max_connections, or put a pooler in front.",
        evidence=[row],
    )


async def pooler(patient: Patient) -> Finding:
    """Workers can listen, and die noticed."""
    direct = patient.settings.direct_url
    if direct:
        connection = await connect_async(direct, "doctor")
        async with connection:
            if not await behind_pooler(connection):
                return ok("direct_url leads straight to Postgres")
        return Finding(
            severity="error",
            summary="direct_url leads to a pooler too",
            meaning="Workers cannot hear of new jobs at once, and their death is noticed late.",
            advice="Let POSTHOUSE_DIRECT_URL name the Postgres server itself.",
        )
    if not await behind_pooler(patient.connection):
        return ok("no pooler in between")
    return Finding(
        severity="warning",
        summary="a transaction pooler stands in front of Postgres, and direct_url is not set",
        meaning="Workers fall back to polling, and a dead worker's jobs wait until its leases run out.",
        advice="Set POSTHOUSE_DIRECT_URL to the Postgres server itself; the rest may use the pooler.",
    )
