"""All checks, one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import psycopg

from posthouse.insights.doctor import engine, fleet, horizon, server, tables
from posthouse.insights.doctor.finding import Finding, Patient, Thresholds
from posthouse.settings import Settings
from posthouse.storage.connect import connect_async
from posthouse.storage.reading import Db, fetch_row

Check: TypeAlias = Callable[[Patient], Awaitable[Finding]]

CHECKS: dict[str, Check] = {
    "version": server.version,
    "durability": server.durability,
    "connections": server.connections,
    "pooler": server.pooler,
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
"""By name, in the order of the report. Those behind `schema` need one."""

_WITHOUT_SCHEMA = list(CHECKS)[: list(CHECKS).index("schema") + 1]


async def examine(url: str, settings: Settings, thresholds: Thresholds | None = None) -> list[Finding]:
    """Every finding, the good ones too. A database that cannot be reached is a finding."""
    try:
        connection = await connect_async(url, "doctor")
    except psycopg.Error as error:
        return [_unreachable(error)]
    patient = Patient(connection, settings, thresholds or Thresholds())
    reached = Finding(check="database", severity="ok", summary="Postgres can be reached")
    async with connection:
        return [reached, *await _findings(patient)]


async def examine_one(
    connection: Db, settings: Settings, name: str, thresholds: Thresholds | None = None
) -> Finding:
    """What a single check finds, on a connection of the caller's."""
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
    """In a transaction of its own, so that none takes long and none spoils the next."""
    milliseconds = int(patient.thresholds.check_seconds * 1000)
    try:
        async with patient.connection.transaction():
            await fetch_row(patient.connection, "doctor_patience", milliseconds=milliseconds)
            return await check(patient)
    except psycopg.Error as error:
        return Finding(
            severity="warning",
            summary=f"this check could not be made: {str(error).strip().splitlines()[0]}",
            meaning="What it would have found is unknown.",
            advice="Look at the message; a missing privilege or an overloaded server are the usual causes.",
        )


def _unreachable(error: psycopg.Error) -> Finding:
    return Finding(
        check="database",
        severity="error",
        summary=" ".join(str(error).split()),
        meaning="Postgres cannot be reached: nothing can be enqueued and nothing runs.",
        advice="Check that it is up, and that POSTHOUSE_DATABASE_URL names it: `posthouse config`.",
    )
