"""The Postgres server and the way to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from posthouse.insights.doctor.finding import Finding, Patient, ok
from posthouse.storage.connections import behind_pooler, connect_async
from posthouse.storage.queries import fetch_row

OLDEST_VERSION = 150_000
GIGABYTE = 1024**3
SMALL_WAL = 2 * GIGABYTE
SMALL_BUFFERS = GIGABYTE // 8
SLOW_DISK_COST = 4.0


async def version(patient: Patient) -> Finding:
    """Postgres has a supported version."""
    row = await fetch_row(patient.connection, "doctor_server")
    if row["number"] >= OLDEST_VERSION:
        return ok(f"Postgres {row['version']}")
    return Finding(
        severity="error",
        summary=f"Postgres {row['version']} is older than 15",
        meaning="Posthouse uses features of Postgres 15; some of its functions will fail.",
        advice="Upgrade Postgres to 15 or newer.",
        evidence=[row],
    )


async def durability(patient: Patient) -> Finding:
    """Accepted jobs survive a crash."""
    row = await fetch_row(patient.connection, "doctor_durability")
    off = [name for name in ("fsync", "full_page_writes") if not row[name]]
    if off:
        return Finding(
            severity="error",
            summary=f"{' and '.join(off)} switched off",
            meaning="After a power failure or a crash of the machine the database may be corrupted.",
            advice=f"Run: alter system set {off[0]} = on; select pg_reload_conf();",
            evidence=[row],
        )
    if row["synchronous_commit"] == "off":
        return Finding(
            severity="warning",
            summary="synchronous_commit is off",
            meaning="A crash of Postgres loses the most recent commits, including accepted jobs.",
            advice="Switch it on for the role or database that Posthouse uses, "
            "or accept that recent enqueues can be lost.",
            evidence=[row],
        )
    return ok("commits are written to disk")


async def speed(patient: Patient) -> Finding:
    """Server settings make the queue no slower than necessary. A hint, never a warning: it works with any."""
    row = await fetch_row(patient.connection, "doctor_speed")
    hints = list(_speed_hints(row))
    if not hints:
        return ok("no server setting is known to cost speed")
    names = [hint.split()[0] for hint in hints]
    return Finding(
        severity="ok",
        summary=f"Postgres could be faster: see {', '.join(names)}",
        meaning="The queue works with the current settings, but more slowly than it could.",
        advice="Consider " + "; ".join(hints) + ".",
        evidence=[row],
    )


def _speed_hints(row: dict[str, Any]) -> Iterator[str]:
    """What to change, each beginning with the name of the setting."""
    alter = f'alter database "{row["database"]}" set'
    if row["max_wal_bytes"] < SMALL_WAL:
        yield "max_wal_size = '4GB' (alter system): fewer checkpoints under load, and less write-ahead log"
    if row["buffer_bytes"] <= SMALL_BUFFERS:
        yield "shared_buffers = a quarter of the memory (alter system, restart): the default is 128 MB"
    if row["random_page_cost"] >= SLOW_DISK_COST:
        yield f"random_page_cost = 1.1 if the disk is an SSD ({alter} random_page_cost = 1.1)"
    if row["jit"]:
        yield f"jit = off ({alter} jit = off): Posthouse cannot switch it off in a pooler's sessions"


async def connections(patient: Patient) -> Finding:
    """The server has free connections."""
    row = await fetch_row(patient.connection, "doctor_connections")
    share = row["used"] / max(1, row["allowed"])
    summary = f"{row['used']} of {row['allowed']} connections in use"
    if share < patient.thresholds.connections_warning:
        return ok(summary)
    return Finding(
        severity="error" if share >= patient.thresholds.connections_error else "warning",
        summary=summary,
        meaning="When no connection is left, workers cannot reconnect and enqueue fails.",
        advice="Find the clients that hold them "
        "(select application_name, count(*) from pg_stat_activity group by 1), "
        "raise max_connections, or use a pooler.",
        evidence=[row],
    )


async def pooler(patient: Patient) -> Finding:
    """Workers can use LISTEN and session locks."""
    direct = patient.settings.direct_url
    if direct:
        connection = await connect_async(direct, "doctor")
        async with connection:
            if not await behind_pooler(connection):
                return ok("direct_url connects to Postgres without a pooler")
        return Finding(
            severity="error",
            summary="direct_url connects to a pooler, not to Postgres",
            meaning="Workers learn of new jobs by polling only, and dead workers are detected late.",
            advice="Set POSTHOUSE_DIRECT_URL to the Postgres server itself.",
        )
    if not await behind_pooler(patient.connection):
        return ok("no pooler between Posthouse and Postgres")
    return Finding(
        severity="warning",
        summary="connections go through a pooler, and direct_url is not set",
        meaning="Workers fall back to polling, and jobs of a dead worker wait until their leases expire.",
        advice="Set POSTHOUSE_DIRECT_URL to the Postgres server itself; the rest keeps using the pooler.",
    )
