"""How workers learn that jobs are ready."""

from __future__ import annotations

from typing import Literal

from posthouse.dispatch import Redis, Streams, redis_of
from posthouse.errors import ConfigurationError, RedisUnavailable
from posthouse.insights.doctor.finding import Finding, Patient, ok


async def dispatch(patient: Patient) -> Finding:
    """Redis is reachable and a relay writes hints, if dispatch uses Redis."""
    mode = patient.settings.dispatch
    try:
        redis = redis_of(patient.settings)
    except ConfigurationError as error:
        return _unusable(mode, str(error))
    if redis is None:
        return ok("database mode: LISTEN/NOTIFY and polling")
    try:
        return await _examine(redis, mode)
    except RedisUnavailable as error:
        return _unusable(mode, str(error))
    finally:
        await redis.close()


async def _examine(redis: Redis, mode: str) -> Finding:
    streams = Streams(redis)
    facts, (relay, _) = await streams.facts(), await streams.relay()
    version = facts.get("valkey_version") or facts.get("redis_version", "of unknown version")
    summary = f"{mode} mode: Redis {version} uses {facts.get('used_memory_human', 'unknown')} of memory"
    if relay:
        return ok(f"{summary}, relay {relay}")
    return Finding(
        severity="warning",
        summary=f"{mode} mode: no relay writes hints to Redis",
        meaning="Idle workers find new jobs only when they poll, every 30 seconds.",
        advice="Start a keeper with the same POSTHOUSE_DISPATCH and POSTHOUSE_REDIS_URL: `posthouse keeper`.",
    )


def _unusable(mode: str, reason: str) -> Finding:
    falls_back = mode == "hybrid"
    severity: Literal["warning", "error"] = "warning" if falls_back else "error"
    return Finding(
        severity=severity,
        summary=reason,
        meaning="Workers poll Postgres instead; jobs start up to a second later."
        if falls_back
        else "Running workers find new jobs only when they poll, every 30 seconds; workers cannot start.",
        advice="Check that Redis runs and that POSTHOUSE_REDIS_URL is correct: `posthouse config`.",
    )
