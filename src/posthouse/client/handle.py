"""Handles of enqueued jobs: the job's id, and a way to wait for its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID

from posthouse.core.duration import Duration
from posthouse.errors import JobFailed

if TYPE_CHECKING:
    from posthouse.client.batch import Outcome, Receipt
    from posthouse.client.client import Client
    from posthouse.client.sync import SyncClient

H = TypeVar("H")


class Handle:
    """A handle of an enqueued job: its ``id``, and the ``outcome`` of the enqueue.

    ``outcome`` is ``"created"``; ``"existing"`` if the handle refers to an existing job with the same dedupe
    key; ``"rejected"`` for a rejected duplicate; or ``"repeated"`` if a job with this id had already been
    enqueued.
    """

    __slots__ = ("_client", "id", "outcome")

    def __init__(self, client: Client, job_id: UUID, outcome: Outcome) -> None:
        self._client = client
        self.id = job_id
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"<Handle {self.id} {self.outcome}>"

    async def wait(self, timeout: Duration | None = None) -> Any:
        """Wait until the job has finished and return its result.

        Raises JobFailed if the job did not succeed, and WaitTimeout if it has not finished after ``timeout``.
        """
        return await self._client.wait(self.id, timeout)

    async def attach(self, path: str | Path, name: str | None = None, *, connection: Any) -> None:
        """Attach a file to the job. Its handler gets the file with ``job.download(name, …)``.

        ``connection`` must be the connection that the job was enqueued on: the job cannot start before that
        transaction is committed, and so never starts without the file. ``name`` defaults to the name of the
        file. Raises JobNotFound if the job is no longer queued.
        """
        await self._client.attach(self.id, Path(path), name, connection=connection)


class SyncHandle:
    """A handle of an enqueued job, for code without an event loop."""

    __slots__ = ("_client", "id", "outcome")

    def __init__(self, client: SyncClient, job_id: UUID, outcome: Outcome) -> None:
        self._client = client
        self.id = job_id
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"<SyncHandle {self.id} {self.outcome}>"

    def wait(self, timeout: Duration | None = None) -> Any:
        """Wait until the job has finished and return its result.

        Raises JobFailed if the job did not succeed, and WaitTimeout if it has not finished after ``timeout``.
        """
        return self._client.wait(self.id, timeout)


class Handles(Sequence[H]):
    """The handles of many jobs in the order of their requests, each created on access."""

    def __init__(self, make: Callable[[UUID, Outcome], H], receipts: Sequence[Receipt]) -> None:
        self._make = make
        self._receipts = receipts

    def __len__(self) -> int:
        return len(self._receipts)

    def __repr__(self) -> str:
        return f"<{len(self)} handles>"

    @overload
    def __getitem__(self, place: int) -> H: ...
    @overload
    def __getitem__(self, place: slice) -> list[H]: ...
    def __getitem__(self, place: int | slice) -> H | list[H]:
        if isinstance(place, slice):
            return [self._make(*receipt) for receipt in self._receipts[place]]
        return self._make(*self._receipts[place])


def result_of(job_id: UUID, status: str, result: Any, error: dict[str, Any] | None) -> Any:
    """Return the result of a finished job. Raises JobFailed if it did not succeed."""
    if status == "succeeded":
        return result
    detail = f": {error.get('type')}: {error.get('message')}" if error else ""
    raise JobFailed(f"job {job_id} ended as {status}{detail}")
