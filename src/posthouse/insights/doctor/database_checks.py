"""Checks of the database server, of long transactions and of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from posthouse.insights.doctor.report import CheckContext, Finding, Severity, Thresholds, ok
from posthouse.storage.connections import connect_async, is_pooled
from posthouse.storage.queries import call_rows, fetch_row, fetch_rows

OLDEST_VERSION = 150_000
GIGABYTE = 1024**3
SMALL_WAL = 2 * GIGABYTE
SMALL_BUFFERS = GIGABYTE // 8
SLOW_DISK_COST = 4.0


async def version(context: CheckContext) -> Finding:
    """Check that Postgres has a supported version."""
    row = await fetch_row(context.connection, "doctor_version")
    if row["number"] >= OLDEST_VERSION:
        return ok(f"Postgres {row['version']}")
    return Finding(
        severity="error",
        summary=f"Postgres {row['version']} is older than 15",
        meaning="Posthouse uses features of Postgres 15; some of its functions will fail.",
        advice="Upgrade Postgres to 15 or newer.",
        evidence=[row],
    )


async def durability(context: CheckContext) -> Finding:
    """Check that accepted jobs survive a crash."""
    row = await fetch_row(context.connection, "doctor_durability")
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


async def speed(context: CheckContext) -> Finding:
    """Check that server settings make the queue no slower than necessary.

    The result is a hint, never a warning, because the queue works with any settings.
    """
    row = await fetch_row(context.connection, "doctor_speed")
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
    """Yield what to change. Each hint begins with the name of the setting."""
    alter = f'alter database "{row["database"]}" set'
    if row["max_wal_bytes"] < SMALL_WAL:
        yield "max_wal_size = '4GB' (alter system): fewer checkpoints under load, and less write-ahead log"
    if row["buffer_bytes"] <= SMALL_BUFFERS:
        yield "shared_buffers = a quarter of the memory (alter system, restart): the default is 128 MB"
    if row["random_page_cost"] >= SLOW_DISK_COST:
        yield f"random_page_cost = 1.1 if the disk is an SSD ({alter} random_page_cost = 1.1)"
    if row["jit"]:
        yield f"jit = off ({alter} jit = off): Posthouse cannot switch it off in a pooler's sessions"


async def connections(context: CheckContext) -> Finding:
    """Check that the server has free connections."""
    row = await fetch_row(context.connection, "doctor_connections")
    share = row["used"] / max(1, row["allowed"])
    summary = f"{row['used']} of {row['allowed']} connections in use"
    if share < context.thresholds.connections_warning:
        return ok(summary)
    return Finding(
        severity="error" if share >= context.thresholds.connections_error else "warning",
        summary=summary,
        meaning="When no connection is left, workers cannot reconnect and enqueue fails.",
        advice="Find the clients that hold them "
        "(select application_name, count(*) from pg_stat_activity group by 1), "
        "raise max_connections, or use a pooler.",
        evidence=[row],
    )


async def pooler(context: CheckContext) -> Finding:
    """Check that workers can use LISTEN and session locks."""
    direct = context.settings.direct_url
    if direct:
        connection = await connect_async(direct, "doctor")
        async with connection:
            if not await is_pooled(connection):
                return ok("direct_url connects to Postgres without a pooler")
        return Finding(
            severity="error",
            summary="direct_url connects to a pooler, not to Postgres",
            meaning="Workers learn of new jobs by polling only, and dead workers are detected late.",
            advice="Set POSTHOUSE_DIRECT_URL to the Postgres server itself.",
        )
    if not await is_pooled(context.connection):
        return ok("no pooler between Posthouse and Postgres")
    return Finding(
        severity="warning",
        summary="connections go through a pooler, and direct_url is not set",
        meaning="Workers fall back to polling, and jobs of a dead worker wait until their leases expire.",
        advice="Set POSTHOUSE_DIRECT_URL to the Postgres server itself; the rest keeps using the pooler.",
    )


async def horizon(context: CheckContext) -> Finding:
    """Check that no transaction, slot or standby has stayed open for long."""
    holders = await fetch_rows(context.connection, "doctor_horizon")
    late = [(holder, how) for holder in holders if (how := _severity(holder, context.thresholds)) != "ok"]
    if not late:
        return ok(await _nothing_seen(context))
    worst = late[0][0]
    return Finding(
        severity="error" if any(how == "error" for _, how in late) else "warning",
        summary=f"{_named(worst)} keeps Postgres from removing dead rows"
        + (f", and {len(late) - 1} more" if len(late) > 1 else ""),
        meaning="Until it ends, dead rows accumulate in all tables of this database. Claims stay fast; "
        "other queries slow down.",
        advice=_advice(worst),
        evidence=[holder for holder, _ in late],
    )


async def _nothing_seen(context: CheckContext) -> str:
    row = await fetch_row(context.connection, "doctor_version")
    limit = context.thresholds.horizon_warning_seconds
    seen = "" if row["sees_all"] else " among this user's own sessions (grant pg_read_all_stats to see all)"
    return f"no transaction has been open for {limit:g} s{seen}"


def _severity(holder: dict[str, Any], thresholds: Thresholds) -> Severity:
    seconds = holder["age_seconds"]
    if seconds is None:  # the start is unknown for slots and standbys
        return "warning" if (holder["age_transactions"] or 0) >= thresholds.horizon_transactions else "ok"
    if seconds >= thresholds.horizon_error_seconds:
        return "error"
    return "warning" if seconds >= thresholds.horizon_warning_seconds else "ok"


def _named(holder: dict[str, Any]) -> str:
    if holder["holder"] != "session":
        name = holder["name"] or holder["application"] or holder["pid"]
        return f"{holder['holder']} {name}"
    application = f", {holder['application']}" if holder["application"] else ""
    state = f" {holder['state']}" if holder["state"] else ""
    return (
        f"session {holder['pid']} (user {holder['user']}{application}),{state} "
        f"for {holder['age_seconds']:.0f} s,"
    )


def _advice(holder: dict[str, Any]) -> str:
    match holder["holder"]:
        case "session":
            return f"End it in its application, or run: select pg_terminate_backend({holder['pid']});"
        case "prepared transaction":
            return f"Finish the transaction: rollback prepared '{holder['name']}'; (or commit prepared)"
        case "replication slot":
            return (
                "Start its standby again, or drop the slot: "
                f"select pg_drop_replication_slot('{holder['name']}');"
            )
        case _:
            return "End the long query on the standby, or set hot_standby_feedback = off there."


MAX_ROWS_COUNTED = 10_000


async def bloat(context: CheckContext) -> Finding:
    """Check that vacuum keeps up with dead rows."""
    found = await fetch_rows(context.connection, "doctor_bloat")
    unattended = [row for row in found if not row["autovacuum"]]
    if unattended:
        names = ", ".join(row["table"] for row in unattended)
        return Finding(
            severity="error",
            summary=f"autovacuum is off for {names}",
            meaning="Dead rows are never removed: tables grow with every job, and queries slow down.",
            advice="Run: alter table posthouse.… reset (autovacuum_enabled); and set autovacuum = on.",
            evidence=unattended,
        )
    bloated = [row for row in found if _is_bloated(row, context.thresholds)]
    if bloated:
        names = ", ".join(f"{row['table']} ({row['dead']:,} dead)" for row in bloated)
        return Finding(
            severity="warning",
            summary=f"many dead rows in {names}",
            meaning="Vacuum does not keep up, or cannot remove rows (see horizon).",
            advice=f"Run: vacuum posthouse.{bloated[0]['table']}; if the rows return, make autovacuum run "
            "more often (autovacuum_naptime, autovacuum_vacuum_cost_limit).",
            evidence=bloated,
        )
    return ok(f"at most {max((row['dead'] for row in found), default=0):,} dead rows in a table")


def _is_bloated(row: dict[str, Any], thresholds: Thresholds) -> bool:
    share = row["dead"] / max(1, row["dead"] + row["live"])
    return bool(row["dead"] >= thresholds.dead_rows and share >= thresholds.dead_share)


async def partitions(context: CheckContext) -> Finding:
    """Check that partitions exist for the coming days."""
    missing = await fetch_rows(
        context.connection, "doctor_missing_partitions", days=context.thresholds.partition_days
    )
    if missing:
        days = sorted({str(row["day"]) for row in missing})
        return Finding(
            severity="error",
            summary=f"no partition of {missing[0]['table']} for {', '.join(days)}",
            meaning="Rows of such a day go to the default partition, which is never dropped.",
            advice="Start a keeper, which creates partitions: posthouse keeper",
            evidence=missing,
        )
    found = await call_rows(context.connection, "default_partition_rows", dict, limit=MAX_ROWS_COUNTED)
    misplaced = [row for row in found if row["rows"]]
    if misplaced:
        counts = ", ".join(f"{row['rows']:,} in {row['relation']}_default" for row in misplaced)
        return Finding(
            severity="warning",
            summary=f"rows in the default partitions: {counts}",
            meaning="Their partition did not exist when they were written. Retention deletes them row by row "
            "when they expire, except those of the audit log.",
            advice="Keep a keeper running: it creates partitions a week ahead.",
            evidence=misplaced,
        )
    return ok(f"partitions exist for the next {context.thresholds.partition_days} days")
