"""The services of a job in a job process, provided by the worker."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

from posthouse.core.request import Request
from posthouse.storage.pools import Pools
from posthouse.worker.commit import Commit, Plain, StepCommit
from posthouse.worker.job import Desk, Job
from posthouse.worker.processes.wire import Message, unpack_refusal

if TYPE_CHECKING:
    from posthouse.worker.processes.inside import Talk

ASKED = frozenset({
    "report_progress",
    "report_part",
    "declare_parts",
    "steps_done",
    "find_step",
    "keep_step",
    "upload",
    "download",
    "land",
})  # fmt: skip
"""Async methods of the worker's services that a process may call. Arguments, results and errors are sent as
JSON.
"""

TOLD = frozenset({
    "emit",
    "note_step",
})  # fmt: skip
"""Plain methods of the worker's services, called without waiting for a result."""


class RemoteDesk:
    """Calls the worker, except for transactions, which use a connection of this process."""

    def __init__(self, talk: Talk, hello: Message) -> None:
        self.loop = talk.loop
        self.payload_limit: int = hello["payload_limit"]
        self.result_limit: int = hello["result_limit"]
        self.log_level: int = hello["job_log_level"]
        self._lease_seconds: float = hello["lease_seconds"]
        self._pools = Pools(hello["url"])
        self._talk = talk
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Any]] = {}
        talk.on_answer = self._answered

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in ASKED:
            return functools.partial(self._ask, name)
        if name in TOLD:
            return functools.partial(self._tell, name)
        raise AttributeError(f"{name} is not available in a job process")

    async def _ask(self, method: str, job: Job, *arguments: Any) -> Any:
        number = next(self._numbers)
        answer = self._asked[number] = Future()
        self._talk.send({"ask": method, "number": number, "job": job.hex_id, "arguments": arguments})
        return await asyncio.wrap_future(answer)  # the handler's loop, or that of the other thread

    def _tell(self, method: str, job: Job, *arguments: Any) -> None:
        self._talk.send({"tell": method, "job": job.hex_id, "arguments": arguments})

    def _answered(self, message: Message) -> None:
        answer = self._asked.pop(message["answer"])
        if answer.set_running_or_notify_cancel():
            if "refusal" in message:
                answer.set_exception(unpack_refusal(message["refusal"]))
            else:
                answer.set_result(message["value"])

    def admitted(self, request: Request) -> Request:
        """Return the request unchanged. The worker applies its rules, and the follow-up is checked when it
        runs.
        """
        return request

    def begin(self, job: Job) -> Plain:
        return Plain(job, self._pools)

    def begin_commit(self, job: Job) -> Commit:
        return _AnnouncedCommit(job, self._pools, self.result_limit, self._announce)

    def begin_step(self, job: Job, name: str) -> StepCommit:
        return StepCommit(job, cast("Desk", self), self._pools, name, self._lease_seconds)

    def _announce(self, job: Job) -> None:
        self._talk.send({"committing": job.hex_id})


class _AnnouncedCommit(Commit):
    """Notifies the worker before it completes the job, so that a missing lease is not taken as lost."""

    def __init__(self, job: Job, pools: Pools, result_limit: int, announce: Callable[[Job], None]) -> None:
        super().__init__(job, pools, result_limit)
        self._announce = announce

    def _parameters(self) -> tuple[Any, ...]:
        self._announce(self._job)
        return super()._parameters()
