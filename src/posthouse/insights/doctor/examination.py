"""Run all checks in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import psycopg

from posthouse.insights.doctor import dispatch, engine, fleet, horizon, server, tables
from posthouse.insights.doctor.finding import Finding, Patient, Thresholds
from posthouse.settings import Settings
from posthouse.storage.connections import connect_async
from posthouse.storage.queries import Db, fetch_row

Check: TypeAlias = Callable[[Patient], Awaitable[Finding]]

CHECKS: dict[str, Check] = {
    "version": server.version,
    "durability": server.durability,
    "speed": server.speed,
    "connections": server.connections,
    "pooler": server.pooler,
    "dispatch": dispatch.dispatch,
    "schema": engine.schema,
    "clock": engine.clock,
    "horizon": horizon.horizon,
    "bloat": tables.bloat,
    "partitions": tables.partitions,
    "keeper": engine.keeper,
    "leases": engine.leases,
    "workers": fleet.dead_workers,
    "unserved": fleet.unserved,
    "stuck": fleet.stuck,
}
"""The checks by name, in the order of the report. Those after `schema` need a schema."""

_WITHOUT_SCHEMA = list(CHECKS)[: list(CHECKS).index("schema") + 1]


async def examine(url: str, settings: Settings, thresholds: Thresholds | None = None) -> list[Finding]:
    """Return the findings of all checks. An unreachable database is a finding."""
    try:
        connection = await connect_async(url, "doctor")
    except psycopg.Error as error:
        return [_unreachable(error)]
    patient = Patient(connection, settings, thresholds or Thresholds())
    reached = Finding(check="database", severity="ok", summary="Postgres is reachable")
    async with connection:
        return [reached, *await _findings(patient)]


async def examine_one(
    connection: Db, settings: Settings, name: str, thresholds: Thresholds | None = None
) -> Finding:
    """Return the finding of a single check, on the caller's connection."""
    patient = Patient(connection, settings, thresholds or Thresholds())
    return replace(await _run(patient, CHECKS[name]), check=name)


async def _findings(patient: Patient) -> list[Finding]:
    findings: list[Finding] = []
    has_schema = False
    for name, check in CHECKS.items():
        if name in _WITHOUT_SCHEMA or has_schema:
            findings.append(replace(await _run(patient, check), check=name))
        if name == "schema":
            has_schema = findings[-1].severity != "error"
    return findings


async def _run(patient: Patient, check: Check) -> Finding:
    """Run a check in its own transaction with a statement timeout, so that a failure stays its own."""
    milliseconds = int(patient.thresholds.check_seconds * 1000)
    try:
        async with patient.connection.transaction():
            await fetch_row(patient.connection, "doctor_patience", milliseconds=milliseconds)
            return await check(patient)
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
