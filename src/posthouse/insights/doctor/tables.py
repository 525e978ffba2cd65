"""The tables: dead rows and partitions."""

from __future__ import annotations

from typing import Any

from posthouse.insights.doctor.finding import Finding, Patient, Thresholds, ok
from posthouse.storage.queries import call_rows, fetch_rows

MOST_STRAYS = 10_000


async def bloat(patient: Patient) -> Finding:
    """Vacuum keeps up with dead rows."""
    found = await fetch_rows(patient.connection, "doctor_bloat")
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
    bloated = [row for row in found if _is_bloated(row, patient.thresholds)]
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


async def partitions(patient: Patient) -> Finding:
    """Partitions exist for the coming days."""
    missing = await fetch_rows(
        patient.connection, "doctor_partitions", days=patient.thresholds.partition_days
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
    found = await call_rows(patient.connection, "strays", dict, limit=MOST_STRAYS)
    strays = [row for row in found if row["strays"]]
    if strays:
        counts = ", ".join(f"{row['strays']:,} in {row['relation']}_default" for row in strays)
        return Finding(
            severity="warning",
            summary=f"rows in the default partitions: {counts}",
            meaning="Their partition did not exist when they were written. Retention deletes them row by row "
            "when they expire, except those of the audit log.",
            advice="Keep a keeper running: it creates partitions a week ahead.",
            evidence=strays,
        )
    return ok(f"partitions exist for the next {patient.thresholds.partition_days} days")
