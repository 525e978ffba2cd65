"""Send the reports of running jobs to a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from posthouse.errors import LeaseLost
from posthouse.storage.notebook import LogLine
from posthouse.worker.remote.line import HttpLine

MOST_LINES = 2000


class RemoteNotebook:
    def __init__(self, line: HttpLine, worker_id: UUID, lease_seconds: float) -> None:
        self._line = line
        self._worker = str(worker_id)
        self.lease_seconds = lease_seconds

    async def close(self) -> None:
        """Nothing to do: the connection is shared."""

    async def report(self, reports: Sequence[Mapping[str, Any]]) -> dict[UUID, str]:
        answer = await self._line.post("jobs/progress", self._body(jobs=reports))
        return {UUID(job_id): verdict for verdict in ("lost", "busy") for job_id in answer[verdict]}

    async def parts(self, job_id: UUID, token: UUID) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._of_job(job_id, token, "parts")
        return found

    async def steps_done(self, job_id: UUID, token: UUID) -> list[str]:
        return [step["name"] for step in await self._of_job(job_id, token, "steps")]

    async def step_result(self, job_id: UUID, token: UUID, name: str) -> str | None:
        found = await self._of_job(job_id, token, "steps", name=name)
        return json.dumps(found[0]["result"]) if found else None

    async def keep_step(self, parameters: Sequence[Any]) -> str:
        """Store a step. The parameters are those of the statement step_keep."""
        job_id, token, _, name, result, seconds, _ = parameters
        body = b'%b,"result":%b}' % (
            self._body(token=token, name=name, seconds=seconds)[:-1],
            result.encode(),
        )
        try:
            answer = await self._line.post(f"jobs/{job_id}/steps", body)
        except LeaseLost:
            return "lost"
        return str(answer["outcome"])

    async def write_log(self, lines: Sequence[LogLine]) -> None:
        for start in range(0, len(lines), MOST_LINES):
            some = [_line(line) for line in lines[start : start + MOST_LINES]]
            await self._line.post("jobs/log", self._body(lines=some))

    async def _of_job(self, job_id: UUID, token: UUID, what: str, **query: str) -> Any:
        headers = {"X-Lease-Token": str(token)}
        return await self._line.get(f"jobs/{job_id}/{what}", headers=headers, params=query)

    def _body(self, **fields: Any) -> bytes:
        return to_json({"worker_id": self._worker, "lease_seconds": self.lease_seconds, **fields})


def _line(line: LogLine) -> dict[str, Any]:
    return {
        "id": line.job_id,
        "token": line.token,
        "age": max(0.0, line.age),
        "stream": line.stream,
        "level": line.level,
        "text": line.text,
    }
