"""What enqueue gives back: a job's id, and a way to wait for its end."""

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
    """A job that was enqueued, or that already stood for it (see ``outcome``)."""

    __slots__ = ("_client", "id", "outcome")

    def __init__(self, client: Client, job_id: UUID, outcome: Outcome) -> None:
        self._client = client
        self.id = job_id
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"<Handle {self.id} {self.outcome}>"

    async def wait(self, timeout: Duration | None = None) -> Any:
        """The job's result, once it has succeeded. Raises JobFailed or WaitTimeout."""
        return await self._client.wait(self.id, timeout)

    async def attach(self, path: str | Path, name: str | None = None, *, connection: Any) -> None:
        """Give the job a file, which its handler gets with ``job.download(name, …)`` wherever it runs.

        On the connection, and so in the transaction, that enqueued the job: it cannot start without the file.
        The name is that of the file unless another is given. Raises JobNotFound if the job is no longer
        queued.
        """
        await self._client.attach(self.id, Path(path), name, connection=connection)


class SyncHandle:
    """A job that was enqueued, for callers without an event loop."""

    __slots__ = ("_client", "id", "outcome")

    def __init__(self, client: SyncClient, job_id: UUID, outcome: Outcome) -> None:
        self._client = client
        self.id = job_id
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"<SyncHandle {self.id} {self.outcome}>"

    def wait(self, timeout: Duration | None = None) -> Any:
        """The job's result, once it has succeeded. Raises JobFailed or WaitTimeout."""
        return self._client.wait(self.id, timeout)


class Handles(Sequence[H]):
    """Those of many jobs, in the order of their requests; each is made when it is looked at."""

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
    """The result of an ended job, or the error that says how it ended."""
    if status == "succeeded":
        return result
    detail = f": {error.get('type')}: {error.get('message')}" if error else ""
    raise JobFailed(f"job {job_id} ended as {status}{detail}")
