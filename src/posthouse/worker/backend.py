"""What a worker needs of whoever holds the jobs. Two there are: the database (direct.py), and a server of
Posthouse that stands before it (remote/). Everything that a worker asks goes through here.

Every call can be repeated: ids and tokens say what it is about. One that raises AWAY may or may not have
landed, and is to be made again; one that raises REFUSED has changed nothing and never will.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import psycopg

from posthouse.errors import Refused, ServerUnavailable
from posthouse.storage.leases import Claim, Settlement, Success
from posthouse.storage.notebook import LogLine
from posthouse.storage.pools import Pools

AWAY: tuple[type[Exception], ...] = (psycopg.OperationalError, ServerUnavailable)
REFUSED: tuple[type[Exception], ...] = (psycopg.Error, Refused)


class Leases(Protocol):
    """Claims jobs and reports how they ended."""

    lease_seconds: float

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
    ) -> Claim: ...
    async def claim_rules(self) -> tuple[dict[str, float], bool]: ...
    async def next_token(self, queues: Sequence[str], kinds: Sequence[str]) -> float | None: ...
    async def be_hungry(self, queues: Sequence[str]) -> None: ...
    async def be_fed(self, queues: Sequence[str]) -> None: ...
    async def succeed(self, reports: Sequence[Success]) -> list[UUID]: ...
    async def settle(self, reports: Sequence[Settlement]) -> list[UUID]: ...
    async def announce(
        self,
        worker: Mapping[str, Any],
        definitions: Sequence[Mapping[str, Any]],
        limits: Sequence[Mapping[str, Any]] = (),
        triggers: Sequence[Mapping[str, Any]] = (),
    ) -> None: ...
    async def definitions_since(self, digest: str) -> tuple[str, list[str]] | None: ...
    async def serve(self, queues: Sequence[str], kinds: Sequence[str]) -> None: ...
    async def sign_off(self) -> None: ...
    async def close(self) -> None: ...


class Notebook(Protocol):
    """Takes what running jobs tell of themselves."""

    lease_seconds: float

    async def report(self, reports: Sequence[Mapping[str, Any]]) -> dict[UUID, str]: ...
    async def parts(self, job_id: UUID, token: UUID, /) -> list[dict[str, Any]]: ...
    async def steps_done(self, job_id: UUID, token: UUID, /) -> list[str]: ...
    async def step_result(self, job_id: UUID, token: UUID, name: str, /) -> str | None: ...
    async def keep_step(self, parameters: Sequence[Any]) -> str: ...
    async def write_log(self, lines: Sequence[LogLine]) -> None: ...
    async def close(self) -> None: ...


class Pulse(Protocol):
    """A connection of the heartbeat's thread."""

    watched: bool
    """Whether others notice at once when it ends, and may take us for dead."""

    def beat(self, ids: Sequence[str], tokens: Sequence[str]) -> list[tuple[str, str]]:
        """Renews leases; returns the hex ids of those that need something, and what."""
        ...

    def look(self) -> None:
        """Raises AWAY if the connection has ended by itself."""
        ...


class Hearing(NamedTuple):
    """What is done when there may be work, when a job is to be canceled, when nothing is missed from now on,
    and when definitions changed.
    """

    work: Callable[[], None]
    cancel: Callable[[], None]
    listening: Callable[[], None]
    definitions: Callable[[], None]


class Listener(Protocol):
    """Hears that there is work, what is to be canceled, and that definitions changed."""

    works: bool

    async def run(self) -> None: ...


class Shelf(Protocol):
    """Keeps files of jobs."""

    async def put(self, job_id: UUID, token: UUID, name: str, path: Path) -> dict[str, Any]: ...
    async def get(
        self, job_id: UUID, token: UUID, name: str, path: Path, of: UUID | None
    ) -> dict[str, Any]: ...
    async def close(self) -> None: ...


class Backend(Protocol):
    """Makes the connections of one worker."""

    process_url: str | None
    """What processes of the worker connect to for transactions of handlers; None: they cannot."""

    def leases(self) -> Leases: ...
    def notebook(self) -> Notebook: ...
    def pools(self) -> Pools: ...
    def shelf(self) -> Shelf: ...
    def pulse(self) -> AbstractContextManager[Pulse]: ...
    def listener(self, queues: set[str], tell: Hearing) -> Listener: ...
    async def close(self) -> None: ...
