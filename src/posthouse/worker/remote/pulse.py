"""The heartbeat over HTTP. A remote worker has no liveness lock; its leases show that it is alive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx
from pydantic_core import to_json

from posthouse.errors import ServerUnavailable
from posthouse.waiting import until_readable
from posthouse.worker.remote.answers import content_of


class HttpPulse:
    watched = False

    def __init__(self, client: httpx.Client, worker_id: UUID, lease_seconds: float) -> None:
        self._client = client
        self._worker = str(worker_id)
        self._lease_seconds = lease_seconds

    def beat(self, ids: Sequence[str], tokens: Sequence[str]) -> list[tuple[str, str]]:
        body = to_json(
            {
                "worker_id": self._worker,
                "lease_seconds": self._lease_seconds,
                "jobs": [{"id": job_id, "token": token} for job_id, token in zip(ids, tokens, strict=True)],
            }
        )
        try:
            answer: dict[str, Any] = content_of(self._client.post("heartbeat", content=body))
        except httpx.TransportError as error:
            raise ServerUnavailable(f"{type(error).__name__}: {error}") from error
        verdicts = [(self._worker, "drain")] if answer["drain"] else []
        for field, verdict in (("lost", "lost"), ("canceled", "cancel"), ("busy", "busy")):
            verdicts += [(UUID(job_id).hex, verdict) for job_id in answer[field]]
        return verdicts

    def wait(self, wakeup: int, seconds: float) -> None:
        """Wait for the wakeup alone: between two heartbeats there may be no connection."""
        until_readable(seconds, wakeup)
