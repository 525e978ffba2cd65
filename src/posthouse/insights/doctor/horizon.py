"""Sessions, slots and standbys that keep Postgres from removing dead rows."""

from __future__ import annotations

from typing import Any

from posthouse.insights.doctor.finding import Finding, Patient, Severity, Thresholds, ok
from posthouse.storage.queries import fetch_row, fetch_rows


async def horizon(patient: Patient) -> Finding:
    """No transaction, slot or standby has stayed open for long."""
    holders = await fetch_rows(patient.connection, "doctor_horizon")
    late = [(holder, how) for holder in holders if (how := _severity(holder, patient.thresholds)) != "ok"]
    if not late:
        return ok(await _nothing_seen(patient))
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


async def _nothing_seen(patient: Patient) -> str:
    row = await fetch_row(patient.connection, "doctor_server")
    limit = patient.thresholds.horizon_warning_seconds
    seen = "" if row["sees_all"] else " among this user's own sessions (grant pg_read_all_stats to see all)"
    return f"no transaction has been open for {limit:g} s{seen}"


def _severity(holder: dict[str, Any], thresholds: Thresholds) -> Severity:
    seconds = holder["age_seconds"]
    if seconds is None:  # slots and standbys do not say since when
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
