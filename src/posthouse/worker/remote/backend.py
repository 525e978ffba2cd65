"""The connections of a worker without a database."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx
from pydantic_core import to_json

from posthouse.core.payload import encode_result
from posthouse.dispatch import Claimant, Reader
from posthouse.errors import LeaseLost, RequestRejected, ServerUnavailable
from posthouse.settings import Settings
from posthouse.storage.attempts import LogEntry
from posthouse.storage.claimed import ClaimedJob
from posthouse.storage.connections import HandlerPools
from posthouse.storage.leases import ERROR_LIMIT, Claim, ClaimOptions, ReadyBatch, Settlement, Success
from posthouse.worker.backend import UNREACHABLE, NotificationCallbacks
from posthouse.worker.remote.artifacts import HttpArtifactStore
from posthouse.worker.remote.client import (
    HttpConnection,
    HttpHeartbeatConnection,
    options,
    warn_of_plain_http,
)

PENDING_CLAIM_SECONDS = 60.0
"""How long a claim without a response may still be running on the server."""


class HttpLeaseStore:
    """The lease store of a remote worker."""

    def __init__(self, connection: HttpConnection, worker_id: UUID, lease_seconds: float) -> None:
        self._connection = connection
        self._worker = str(worker_id)
        self.lease_seconds = lease_seconds
        self.grace_seconds = 0.0
        self._wants_wakeup = False
        self._pending_tokens: dict[str, float] = {}

    async def close(self) -> None:
        """Do nothing: the connection is shared."""

    async def claim(self, options: ClaimOptions) -> Claim:
        """Claim jobs, and recover those of earlier claims whose responses were lost."""
        token, asked_at = str(uuid4()), time.monotonic()
        pending = [old for old, until in self._pending_tokens.items() if until > asked_at]
        body = {
            "worker_id": self._worker,
            "token": token,
            "queues": options.queues,
            "kinds": options.kinds,
            "limit": options.limit,
            "lease_seconds": self.lease_seconds,
            "lane_cursors": list(options.lane_cursors.items()),
            "allow_suspect": options.allow_suspect,
            "capabilities": options.capabilities,
            "tenant_usage": options.tenant_usage or {},
            "preference_wait_seconds": options.preference_wait,
            "min_jobs": options.min_jobs,
            "wants_wakeup": self._wants_wakeup,
            "pending_tokens": pending,
            "payload_as_text": True,
        }
        self._pending_tokens[token] = asked_at + PENDING_CLAIM_SECONDS
        answer = await self._connection.post("jobs/claim", to_json(body))
        del self._pending_tokens[token]
        for old in self._pending_tokens.keys() - pending:
            del self._pending_tokens[old]
        recovered = tuple(_claim(found["token"], found["jobs"], asked_at) for found in answer["recovered"])
        for found in recovered:
            self._pending_tokens.pop(str(found.token), None)
        return _claim(token, answer["jobs"], asked_at + answer["waited_seconds"], recovered)

    async def ready_batches(
        self, queues: Sequence[str], sizes: Mapping[str, int], lane_cursors: Mapping[int, int]
    ) -> list[ReadyBatch]:
        body = {
            "worker_id": self._worker,
            "queues": queues,
            "sizes": sizes,
            "lane_cursors": list(lane_cursors.items()),
            "wants_wakeup": self._wants_wakeup,
        }
        answer = await self._connection.post("jobs/ready_batches", to_json(body))
        return [ReadyBatch(**found) for found in answer["batches"]]

    async def claim_settings(self) -> tuple[dict[str, float], bool]:
        answer = await self._connection.get("claim_settings")
        return answer["weights"], answer["rated"]

    async def next_token(self, queues: Sequence[str], kinds: Sequence[str]) -> float | None:
        answer = await self._connection.post("jobs/next_token", to_json({"queues": queues, "kinds": kinds}))
        seconds: float | None = answer["seconds"]
        return seconds

    async def request_wakeup(self, queues: Sequence[str]) -> None:
        """Request a wakeup with the next claim."""
        del queues
        self._wants_wakeup = True

    async def cancel_wakeup(self, queues: Sequence[str]) -> None:
        del queues
        self._wants_wakeup = False

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
        answer = await self._connection.post(path, body)
        if answer["rejected"]:  # the completer finds it by halving the batch
            raise RequestRejected(answer["rejected"][0]["detail"])
        return [UUID(job_id) for job_id in answer["lost"]]

    async def register(
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
        answer = await self._connection.post("register", to_json(body))
        self.grace_seconds = float(answer["lease_grace_seconds"])
        left_out: dict[str, str] = answer["left_out"]
        return left_out

    async def definitions_since(self, digest: str) -> tuple[str, list[str]] | None:
        answer = await self._connection.get("definitions", params={"digest": digest})
        if answer["definitions"] is None:
            return None
        return answer["digest"], [json.dumps(item) for item in answer["definitions"]]

    async def update_subscription(self, queues: Sequence[str], kinds: Sequence[str]) -> None:
        await self._send("subscription", {"queues": queues, "kinds": kinds})

    async def deregister(self) -> None:
        await self._send("deregister", {})

    async def end_worker(
        self, blockers: Sequence[UUID] | None, error: Mapping[str, Any], crash_limit: int
    ) -> None:
        """End this worker, whose process was killed."""
        named = None if blockers is None else [str(job_id) for job_id in blockers]
        killed = {"blockers": named, "error": error, "crash_limit": crash_limit}
        await self._send("deregister", {"killed": killed})

    async def _send(self, path: str, fields: Mapping[str, Any]) -> None:
        await self._connection.post(path, to_json({"worker_id": self._worker, **fields}))


def _claim(
    token: str, jobs: Sequence[Mapping[str, Any]], asked_at: float, recovered: tuple[Claim, ...] = ()
) -> Claim:
    try:
        return Claim(UUID(token), [ClaimedJob.from_json(job) for job in jobs], asked_at, recovered)
    except (KeyError, TypeError, ValueError) as error:
        raise ServerUnavailable(f"the server sent an invalid reply to a claim: {error!r}") from error


MAX_LINES = 2000


class HttpAttemptStore:
    """The attempt store of a remote worker."""

    def __init__(self, connection: HttpConnection, worker_id: UUID, lease_seconds: float) -> None:
        self._connection = connection
        self._worker = str(worker_id)
        self.lease_seconds = lease_seconds

    async def close(self) -> None:
        """Do nothing: the connection is shared."""

    async def report(self, reports: Sequence[Mapping[str, Any]]) -> dict[UUID, str]:
        answer = await self._connection.post("jobs/progress", self._body(jobs=reports))
        return {UUID(job_id): verdict for verdict in ("lost", "busy") for job_id in answer[verdict]}

    async def parts(self, job_id: UUID, token: UUID) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._of_job(job_id, token, "parts")
        return found

    async def steps_done(self, job_id: UUID, token: UUID) -> list[str]:
        return [step["name"] for step in await self._of_job(job_id, token, "steps")]

    async def step_result(self, job_id: UUID, token: UUID, name: str) -> str | None:
        found = await self._of_job(job_id, token, "steps", name=name)
        return json.dumps(found[0]["result"]) if found else None

    async def save_step(self, parameters: Sequence[Any]) -> str:
        """Store a step. ``parameters`` are those of the statement step_keep."""
        job_id, token, _, name, result, seconds, _ = parameters
        body = b'%b,"result":%b}' % (
            self._body(token=token, name=name, seconds=seconds)[:-1],
            result.encode(),
        )
        try:
            answer = await self._connection.post(f"jobs/{job_id}/steps", body)
        except LeaseLost:
            return "lost"
        return str(answer["outcome"])

    async def write_log(self, lines: Sequence[LogEntry]) -> None:
        for start in range(0, len(lines), MAX_LINES):
            some = [_line(line) for line in lines[start : start + MAX_LINES]]
            await self._connection.post("jobs/log", self._body(lines=some))

    async def _of_job(self, job_id: UUID, token: UUID, what: str, **query: str) -> Any:
        headers = {"X-Lease-Token": str(token)}
        return await self._connection.get(f"jobs/{job_id}/{what}", headers=headers, params=query)

    def _body(self, **fields: Any) -> bytes:
        return to_json({"worker_id": self._worker, "lease_seconds": self.lease_seconds, **fields})


def _line(line: LogEntry) -> dict[str, Any]:
    return {
        "id": line.job_id,
        "token": line.token,
        "age": max(0.0, line.age),
        "stream": line.stream,
        "level": line.level,
        "text": line.text,
    }


WAIT_SECONDS = 25.0
"""Less than the request timeout of common proxies."""
MARGIN_SECONDS = 10.0


class HttpWorkerListener:
    def __init__(
        self,
        connection: HttpConnection,
        worker_id: UUID,
        queues: set[str],
        callbacks: NotificationCallbacks,
    ) -> None:
        self._connection = connection
        self._worker = str(worker_id)
        self._queues = queues
        self._callbacks = callbacks
        self._cursor = ""
        self.is_available = True
        # The worker then reloads definitions often, which is cheap: the server reads them for many workers.
        self.listening = False

    async def run(self) -> None:
        while self.is_available:
            try:
                await self._listen()
            except UNREACHABLE:
                self._cursor = ""

    async def _listen(self) -> None:
        body = {
            "worker_id": self._worker,
            "queues": sorted(self._queues),
            "cursor": self._cursor,
            "wait_seconds": WAIT_SECONDS,
        }
        answer = await self._connection.post(
            "notifications", to_json(body), seconds=WAIT_SECONDS + MARGIN_SECONDS
        )
        self._cursor, self.is_available = answer["cursor"], answer["listening"]
        if answer["missed"]:
            self._callbacks.listening()
        if answer["missed"] or answer["cancel"]:
            self._callbacks.cancel()
        if answer["missed"] or answer["definitions"]:
            self._callbacks.definitions()
        if answer["work"]:
            self._callbacks.work()


class HttpBackend:
    process_url: str | None = None

    def __init__(self, worker_id: UUID, settings: Settings) -> None:
        warn_of_plain_http(settings)
        self._worker_id = worker_id
        self._settings = settings
        self._connection = HttpConnection(settings)

    def leases(self) -> HttpLeaseStore:
        return HttpLeaseStore(self._connection, self._worker_id, self._settings.lease_seconds)

    def attempts(self) -> HttpAttemptStore:
        return HttpAttemptStore(self._connection, self._worker_id, self._settings.lease_seconds)

    def pools(self) -> HandlerPools:
        return HandlerPools(None)

    def artifacts(self) -> HttpArtifactStore:
        return HttpArtifactStore(self._connection, self._settings.max_artifact_bytes)

    @contextmanager
    def pulse(self) -> Iterator[HttpHeartbeatConnection]:
        """Yield the heartbeat connection. Its timeout leaves time to repeat an unanswered heartbeat."""
        seconds = max(1.0, self._settings.lease_seconds / 4)
        with httpx.Client(**{**options(self._settings), "timeout": seconds}) as client:
            yield HttpHeartbeatConnection(client, self._worker_id, self._settings.lease_seconds)

    def listener(self, queues: set[str], callbacks: NotificationCallbacks) -> HttpWorkerListener:
        return HttpWorkerListener(self._connection, self._worker_id, queues, callbacks)

    async def dispatch(self, claimants: Sequence[Claimant]) -> Sequence[Reader]:
        """Return no readers: the server wakes remote workers."""
        del claimants
        return ()

    async def close(self) -> None:
        await self._connection.close()
