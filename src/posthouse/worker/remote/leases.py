"""Claim jobs and write their outcomes through a server."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from pydantic_core import to_json

from posthouse.core.payload import encode_result
from posthouse.errors import Refused, ServerUnavailable
from posthouse.storage.claimed import row_of
from posthouse.storage.leases import ERROR_LIMIT, Claim, ReadyBatch, Settlement, Success
from posthouse.worker.remote.line import HttpLine

UNANSWERED_SECONDS = 60.0
"""How long a claim without a response may still be running on the server."""


class RemoteLeases:
    def __init__(self, line: HttpLine, worker_id: UUID, lease_seconds: float) -> None:
        self._line = line
        self._worker = str(worker_id)
        self.lease_seconds = lease_seconds
        self.grace_seconds = 0.0
        self._hungry = False
        self._unanswered: dict[str, float] = {}

    async def close(self) -> None:
        """Nothing to do: the connection is shared."""

    async def claim(
        self,
        queues: Sequence[str],
        kinds: Sequence[str],
        limit: int,
        marks: Mapping[int, int],
        *,
        careful: bool,
        offers: Sequence[str] = (),
        served: Mapping[str, float] | None = None,
        patience: float = 20.0,
        least: int = 0,
    ) -> Claim:
        """Claim up to ``limit`` jobs, or none if fewer than ``least`` can start, and recover the jobs of
        earlier claims whose responses were lost.
        """
        token, asked_at = str(uuid4()), time.monotonic()
        unanswered = [old for old, until in self._unanswered.items() if until > asked_at]
        body = {
            "worker_id": self._worker,
            "token": token,
            "queues": queues,
            "kinds": kinds,
            "limit": limit,
            "lease_seconds": self.lease_seconds,
            "marks": list(marks.items()),
            "careful": careful,
            "offers": offers,
            "served": served or {},
            "patience_seconds": patience,
            "least": least,
            "hungry": self._hungry,
            "unanswered": unanswered,
            "payload_as_text": True,
        }
        self._unanswered[token] = asked_at + UNANSWERED_SECONDS
        answer = await self._line.post("jobs/claim", to_json(body))
        del self._unanswered[token]
        for old in self._unanswered.keys() - unanswered:
            del self._unanswered[old]
        recovered = tuple(_claim(found["token"], found["jobs"], asked_at) for found in answer["recovered"])
        for found in recovered:
            self._unanswered.pop(str(found.token), None)
        return _claim(token, answer["jobs"], asked_at + answer["waited_seconds"], recovered)

    async def ready_batches(
        self, queues: Sequence[str], sizes: Mapping[str, int], marks: Mapping[int, int]
    ) -> list[ReadyBatch]:
        body = {
            "worker_id": self._worker,
            "queues": queues,
            "sizes": sizes,
            "marks": list(marks.items()),
            "hungry": self._hungry,
        }
        answer = await self._line.post("jobs/ready_batches", to_json(body))
        return [ReadyBatch(**found) for found in answer["batches"]]

    async def claim_rules(self) -> tuple[dict[str, float], bool]:
        answer = await self._line.get("rules")
        return answer["weights"], answer["rated"]

    async def next_token(self, queues: Sequence[str], kinds: Sequence[str]) -> float | None:
        answer = await self._line.post("jobs/next_token", to_json({"queues": queues, "kinds": kinds}))
        seconds: float | None = answer["seconds"]
        return seconds

    async def be_hungry(self, queues: Sequence[str]) -> None:
        """Request a wakeup with the next claim."""
        del queues
        self._hungry = True

    async def be_fed(self, queues: Sequence[str]) -> None:
        del queues
        self._hungry = False

    async def succeed(self, reports: Sequence[Success]) -> list[UUID]:
        items = [
            b'{"id":"%b","token":"%b","result":%b,"followups":%b,"output":%b}'
            % tuple(text.encode() for text in (
                report.id, report.token, report.result or "null", report.followups or "[]",
                report.output or "null",
            ))
            for report in reports
        ]  # fmt: skip
        return await self._report("jobs/complete", items)

    async def settle(self, reports: Sequence[Settlement]) -> list[UUID]:
        items = [
            b'{"id":"%b","token":"%b","event":"%b","outcome":"%b","delay":%b,"error":%b,"output":%b}'
            % tuple(text.encode() for text in (
                report.id, report.token, report.event, report.outcome, json.dumps(report.delay),
                "null" if report.error is None else encode_result(report.error, ERROR_LIMIT),
                report.output or "null",
            ))
            for report in reports
        ]  # fmt: skip
        return await self._report("jobs/settle", items)

    async def _report(self, path: str, items: Sequence[bytes]) -> list[UUID]:
        body = b'{"worker_id":"%b","jobs":[%b]}' % (self._worker.encode(), b",".join(items))
        answer = await self._line.post(path, body)
        if answer["refused"]:  # repeating them one by one shows which
            raise Refused(answer["refused"][0]["detail"])
        return [UUID(job_id) for job_id in answer["lost"]]

    async def announce(
        self,
        worker: Mapping[str, Any],
        definitions: Sequence[Mapping[str, Any]],
        limits: Sequence[Mapping[str, Any]] = (),
        triggers: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, str]:
        body = {
            **worker,
            "worker_id": self._worker,
            "definitions": definitions,
            "limits": limits,
            "triggers": triggers,
        }
        answer = await self._line.post("register", to_json(body))
        self.grace_seconds = float(answer["lease_grace_seconds"])
        left_out: dict[str, str] = answer["left_out"]
        return left_out

    async def definitions_since(self, digest: str) -> tuple[str, list[str]] | None:
        answer = await self._line.get("definitions", params={"digest": digest})
        if answer["definitions"] is None:
            return None
        return answer["digest"], [json.dumps(item) for item in answer["definitions"]]

    async def serve(self, queues: Sequence[str], kinds: Sequence[str]) -> None:
        await self._tell("serving", {"queues": queues, "kinds": kinds})

    async def sign_off(self) -> None:
        await self._tell("leave", {})

    async def end_worker(
        self, blockers: Sequence[UUID] | None, error: Mapping[str, Any], crash_limit: int
    ) -> None:
        """End this worker, whose process was killed."""
        named = None if blockers is None else [str(job_id) for job_id in blockers]
        killed = {"blockers": named, "error": error, "crash_limit": crash_limit}
        await self._tell("leave", {"killed": killed})

    async def _tell(self, path: str, fields: Mapping[str, Any]) -> None:
        await self._line.post(path, to_json({"worker_id": self._worker, **fields}))


def _claim(
    token: str, jobs: Sequence[Mapping[str, Any]], asked_at: float, recovered: tuple[Claim, ...] = ()
) -> Claim:
    try:
        return Claim(UUID(token), [row_of(job) for job in jobs], asked_at, recovered)
    except (KeyError, TypeError, ValueError) as error:
        raise ServerUnavailable(f"the server sent an invalid reply to a claim: {error!r}") from error
