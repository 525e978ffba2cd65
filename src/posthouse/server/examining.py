"""Health checks, cached for a few seconds and shared by all requests."""

from __future__ import annotations

import psycopg
from psycopg_pool import PoolTimeout

from posthouse.insights.doctor import Report, examine, report
from posthouse.insights.health import Health, health, schema_problem, unreachable
from posthouse.insights.presence import Presence, presence
from posthouse.server.access import Gate
from posthouse.server.remembered import Remembered
from posthouse.settings import Settings

PATIENCE = 3.0
REMEMBERED_SECONDS = 5.0
READY_SECONDS = 1.0
DOWN = (psycopg.OperationalError, PoolTimeout)
UNREACHABLE = "cannot connect to Postgres; check that it is running and reachable"


class Examiner:
    """Runs health checks. ``url``: the database, for the doctor, which opens its own connection."""

    def __init__(self, gate: Gate, settings: Settings, url: str) -> None:
        self._gate = gate
        self._settings = settings
        self._url = url
        self.health = Remembered(self._health, REMEMBERED_SECONDS)
        self.report = Remembered(self._report, REMEMBERED_SECONDS)
        self.presence = Remembered(self._presence, REMEMBERED_SECONDS)
        self.unready = Remembered(self._unready, READY_SECONDS)

    async def _health(self) -> Health:
        try:
            async with self._gate.pool.connection(timeout=PATIENCE) as connection:
                return await health(connection, self._settings)
        except DOWN:
            return unreachable(UNREACHABLE)

    async def _presence(self) -> Presence | None:
        """Return who is online and what waits; None if the database is unreachable."""
        try:
            async with self._gate.pool.connection(timeout=PATIENCE) as connection:
                return await presence(connection, offline_after=self._settings.offline_after)
        except DOWN:
            return None

    async def _report(self) -> Report:
        return report(await examine(self._url, self._settings))

    async def _unready(self) -> str:
        """Return why requests cannot be served; empty if they can."""
        try:
            async with self._gate.pool.connection(timeout=PATIENCE) as connection:
                return await schema_problem(connection) or ""
        except DOWN:
            return UNREACHABLE
