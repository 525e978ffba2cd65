"""Interface between a worker and its job store: the database (postgres.py), or a Posthouse server (remote/).

Calls are idempotent: ids and tokens identify them. After UNREACHABLE the call may have taken effect: retry
it. After REJECTED nothing changed: do not retry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import psycopg

from posthouse.dispatch import Claimant, Reader
from posthouse.errors import RequestRejected, ServerUnavailable
from posthouse.storage.attempts import LogEntry
from posthouse.storage.connections import HandlerPools
from posthouse.storage.leases import Claim, ClaimOptions, ReadyBatch, Settlement, Success

UNREACHABLE: tuple[type[Exception], ...] = (psycopg.OperationalError, ServerUnavailable)
REJECTED: tuple[type[Exception], ...] = (psycopg.Error, RequestRejected)


class LeaseTiming(NamedTuple):
    """The times that a worker derives from the lease duration.

    The worker gives up a lease when a tenth of its duration is left. A handler that still runs then must stop
    within half of that tenth.
    """

    lease_seconds: float

    def expires(self, renewed_at: float) -> float:
        """Return when the worker gives up a lease that it requested or renewed at this time."""
        return renewed_at + self.lease_seconds * 0.9

    def stop_grace(self, grace: float) -> float:
        """Return how long a handler may take to stop after its lease was given up."""
        return min(grace, self.lease_seconds * 0.05)


class LeaseStore(Protocol):
    """The store from which jobs are claimed and to which their outcomes are written."""

    lease_seconds: float
    grace_seconds: float
    """How long jobs may continue after their lease could not be renewed. Set by ``register``."""

    async def claim(self, options: ClaimOptions) -> Claim: ...
    async def ready_batches(
        self, queues: Sequence[str], sizes: Mapping[str, int], lane_cursors: Mapping[int, int]
    ) -> list[ReadyBatch]: ...
    async def claim_settings(self) -> tuple[dict[str, float], bool]: ...
    async def next_token(self, queues: Sequence[str], kinds: Sequence[str]) -> float | None: ...
    async def request_wakeup(self, queues: Sequence[str]) -> None: ...
    async def cancel_wakeup(self, queues: Sequence[str]) -> None: ...
    async def succeed(self, reports: Sequence[Success]) -> list[UUID]: ...
    async def settle(self, reports: Sequence[Settlement]) -> list[UUID]: ...
    async def register(
        self,
        worker: Mapping[str, Any],
        definitions: Sequence[Mapping[str, Any]],
        limits: Sequence[Mapping[str, Any]] = (),
        triggers: Sequence[Mapping[str, Any]] = (),
    ) -> Mapping[str, str]: ...
    async def definitions_since(self, digest: str) -> tuple[str, list[str]] | None: ...
    async def update_subscription(self, queues: Sequence[str], kinds: Sequence[str]) -> None: ...
    async def deregister(self) -> None: ...
    async def end_worker(
        self, blockers: Sequence[UUID] | None, error: Mapping[str, Any], crash_limit: int
    ) -> None: ...
    async def close(self) -> None: ...


class AttemptStore(Protocol):
    """The store for the reports of running jobs."""

    lease_seconds: float

    async def report(self, reports: Sequence[Mapping[str, Any]]) -> dict[UUID, str]: ...
    async def parts(self, job_id: UUID, token: UUID, /) -> list[dict[str, Any]]: ...
    async def steps_done(self, job_id: UUID, token: UUID, /) -> list[str]: ...
    async def step_result(self, job_id: UUID, token: UUID, name: str, /) -> str | None: ...
    async def save_step(self, parameters: Sequence[Any]) -> str: ...
    async def write_log(self, lines: Sequence[LogEntry]) -> None: ...
    async def close(self) -> None: ...


class HeartbeatConnection(Protocol):
    """The connection of the heartbeat thread."""

    holds_liveness_lock: bool
    """Whether keepers notice at once when the connection ends, and may then declare this worker lost."""

    def beat(self, ids: Sequence[str], tokens: Sequence[str]) -> list[tuple[str, str]]:
        """Renew leases. Return the hex ids of jobs that need an action, and the action."""
        ...

    def wait(self, wakeup: int, seconds: float) -> None:
        """Wait until the descriptor ``wakeup`` is readable. Raise UNREACHABLE if the connection ends."""
        ...


class NotificationCallbacks(NamedTuple):
    """The callbacks of a listener.

    ``work``: jobs may be ready. ``cancel``: a job must be canceled. ``listening``: listening has started.
    ``definitions``: definitions have changed.
    """

    work: Callable[[], None]
    cancel: Callable[[], None]
    listening: Callable[[], None]
    definitions: Callable[[], None]


class Listener(Protocol):
    """A listener for notifications about ready jobs, cancellations and changed definitions."""

    @property
    def is_available(self) -> bool:
        """Whether notifications are possible."""
        ...

    @property
    def listening(self) -> bool:
        """Whether notifications arrive."""
        ...

    async def run(self) -> None: ...


class ArtifactStore(Protocol):
    """The store for the artifacts of jobs."""

    async def put(self, job_id: UUID, token: UUID, name: str, path: Path) -> dict[str, Any]: ...
    async def get(
        self, job_id: UUID, token: UUID, name: str, path: Path, of: UUID | None
    ) -> dict[str, Any]: ...
    async def close(self) -> None: ...


class Backend(Protocol):
    """A factory for the connections of one worker."""

    process_url: str | None
    """Database URL for transactions in job processes, or None if there are none."""

    def leases(self) -> LeaseStore: ...
    def attempts(self) -> AttemptStore: ...
    def pools(self) -> HandlerPools: ...
    def artifacts(self) -> ArtifactStore: ...
    def pulse(self) -> AbstractContextManager[HeartbeatConnection]: ...
    def listener(self, queues: set[str], callbacks: NotificationCallbacks) -> Listener: ...
    async def dispatch(self, claimants: Sequence[Claimant]) -> Sequence[Reader]:
        """Return the readers of hints, which the worker must run.

        There are none in database mode, where the listener wakes the claimants.
        """
        ...

    async def close(self) -> None: ...
