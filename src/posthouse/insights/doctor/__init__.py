"""The doctor: named checks of the database and the queue, each with the meaning of a finding and advice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import psycopg

from posthouse.insights.doctor import database_checks, queue_checks
from posthouse.insights.doctor.report import (
    CheckContext,
    Finding,
    OverallStatus,
    Report,
    Severity,
    Thresholds,
    report,
)
from posthouse.settings import Settings
from posthouse.storage.connections import connect_async
from posthouse.storage.queries import Db, fetch_row

__all__ = [
    "CHECKS",
    "Finding",
    "OverallStatus",
    "Report",
    "Severity",
    "Thresholds",
    "report",
    "run_check",
    "run_checks",
]

Check: TypeAlias = Callable[[CheckContext], Awaitable[Finding]]

CHECKS: dict[str, Check] = {
    "version": database_checks.version,
    "durability": database_checks.durability,
    "speed": database_checks.speed,
    "connections": database_checks.connections,
    "pooler": database_checks.pooler,
    "dispatch": queue_checks.dispatch,
    "schema": queue_checks.schema,
    "clock": queue_checks.clock,
    "horizon": database_checks.horizon,
    "bloat": database_checks.bloat,
    "partitions": database_checks.partitions,
    "keeper": queue_checks.keeper,
    "leases": queue_checks.leases,
    "workers": queue_checks.dead_workers,
    "unserved": queue_checks.unserved,
    "stuck": queue_checks.stuck,
}
"""The checks by name, in the order of the report. Checks after `schema` need a schema."""

_WITHOUT_SCHEMA = list(CHECKS)[: list(CHECKS).index("schema") + 1]


async def run_checks(url: str, settings: Settings, thresholds: Thresholds | None = None) -> list[Finding]:
    """Return the findings of all checks. An unreachable database is a finding."""
    try:
        connection = await connect_async(url, "doctor")
    except psycopg.Error as error:
        return [_unreachable(error)]
    context = CheckContext(connection, settings, thresholds or Thresholds())
    reached = Finding(check="database", severity="ok", summary="Postgres is reachable")
    async with connection:
        return [reached, *await _findings(context)]


async def run_check(
    connection: Db, settings: Settings, name: str, thresholds: Thresholds | None = None
) -> Finding:
    """Return the finding of a single check, on the caller's connection."""
    context = CheckContext(connection, settings, thresholds or Thresholds())
    return replace(await _run(context, CHECKS[name]), check=name)


async def _findings(context: CheckContext) -> list[Finding]:
    findings: list[Finding] = []
    has_schema = False
    for name, check in CHECKS.items():
        if name in _WITHOUT_SCHEMA or has_schema:
            findings.append(replace(await _run(context, check), check=name))
        if name == "schema":
            has_schema = findings[-1].severity != "error"
    return findings


async def _run(context: CheckContext, check: Check) -> Finding:
    """Run a check in its own transaction with a statement timeout.

    The failure of a check then affects no other check.
    """
    milliseconds = int(context.thresholds.check_seconds * 1000)
    try:
        async with context.connection.transaction():
            await fetch_row(context.connection, "doctor_timeout", milliseconds=milliseconds)
            return await check(context)
    except psycopg.Error as error:
        return Finding(
            severity="warning",
            summary=f"this check failed: {str(error).strip().splitlines()[0]}",
            meaning="The result of this check is unknown.",
            advice="See the message; the usual causes are a missing privilege and an overloaded server.",
        )


def _unreachable(error: psycopg.Error) -> Finding:
    return Finding(
        check="database",
        severity="error",
        summary=" ".join(str(error).split()),
        meaning="Postgres is unreachable: jobs can neither be enqueued nor run.",
        advice="Check that Postgres runs and that POSTHOUSE_DATABASE_URL is correct: `posthouse config`.",
    )
