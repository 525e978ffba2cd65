"""The tables themselves: dead rows and partitions."""

from __future__ import annotations

from typing import Any

from posthouse.insights.doctor.finding import Finding, Patient, Thresholds, ok
from posthouse.storage.reading import fetch_row, fetch_rows

MOST_STRAYS = 10_000


async def bloat(patient: Patient) -> Finding:
    """Dead rows are removed as they come."""
    found = await fetch_rows(patient.connection, "doctor_bloat")
    unattended = [row for row in found if not row["autovacuum"]]
    if unattended:
        names = ", ".join(row["table"] for row in unattended)
        return Finding(
            severity="error",
            summary=f"autovacuum is off for {names}",
            meaning="Nothing removes dead rows there: the tables grow with every job and queries slow down.",
            advice="Switch it on: alter table posthouse.… reset (autovacuum_enabled), and autovacuum = on.",
            evidence=unattended,
        )
    bloated = [row for row in found if _is_bloated(row, patient.thresholds)]
    if bloated:
        names = ", ".join(f"{row['table']} ({row['dead']:,} dead)" for row in bloated)
        return Finding(
            severity="warning",
            summary=f"many dead rows in {names}",
            meaning="Vacuum cannot keep up, or something holds it back (see horizon).",
            advice=f"Run: vacuum posthouse.{bloated[0]['table']}; and if it recurs, let autovacuum run more "
            "often (autovacuum_naptime, autovacuum_vacuum_cost_limit).",
            evidence=bloated,
        )
    return ok(f"at most {max((row['dead'] for row in found), default=0):,} dead rows in a table")


def _is_bloated(row: dict[str, Any], thresholds: Thresholds) -> bool:
    share = row["dead"] / max(1, row["dead"] + row["live"])
    return bool(row["dead"] >= thresholds.dead_rows and share >= thresholds.dead_share)


async def partitions(patient: Patient) -> Finding:
    """Ended jobs have a partition to go to."""
    missing = await fetch_rows(
        patient.connection, "doctor_partitions", days=patient.thresholds.partition_days
    )
    if missing:
        days = sorted({str(row["day"]) for row in missing})
        return Finding(
            severity="error",
            summary=f"no partition of {missing[0]['table']} for {', '.join(days)}",
            meaning="Jobs that end on such a day go to the default partition, which is never dropped.",
            advice="Start a keeper, which makes them: posthouse keeper",
            evidence=missing,
        )
    strays = await fetch_row(patient.connection, "doctor_strays", limit=MOST_STRAYS)
    if any(strays.values()):
        counts = ", ".join(f"{count:,} in {table}_default" for table, count in strays.items() if count)
        return Finding(
            severity="warning",
            summary=f"rows in the default partitions: {counts}",
            meaning="They ended when no partition was ready for them; retention does not reach them.",
            advice="Once you no longer need them: delete from posthouse.history_default; "
            "delete from posthouse.past_attempts_default;",
            evidence=[strays],
        )
    return ok(f"ready for the next {patient.thresholds.partition_days} days")
