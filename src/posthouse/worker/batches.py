"""Decide when to claim a batch: when it is full, or when no more jobs arrive for a while.

Also decide when a worker that has batch kinds claims jobs of its other kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from posthouse.storage.leases import ReadyBatch
from posthouse.worker.handlers import JobDefinition

MAX_LINGERS = 10
"""Maximum wait for a batch, in multiples of the linger time, while jobs keep arriving or limits allow only a
part of the batch.
"""
LOOK_SECONDS = 0.02
"""Interval at which ready jobs are counted while they arrive."""


@dataclass(frozen=True, slots=True)
class BatchClaim:
    """A batch to claim: up to ``limit`` jobs of the kind, or none if fewer than ``min_jobs`` can start."""

    kind: str
    limit: int
    min_jobs: int


@dataclass(slots=True)
class _Wait:
    """The state of the ready, unclaimed jobs of a kind when they were last counted."""

    since: float
    changed_at: float
    looked_at: float
    pause: float = 0.0
    failures: int = 0
    newest: int = -1


class Batches:
    """The batch kinds of a fetcher. Times are of the monotonic clock."""

    def __init__(
        self,
        definitions: Iterable[JobDefinition],
        open_batches: Callable[[str], int],
        *,
        linger: float,
        poll_seconds: float,
    ) -> None:
        """``open_batches`` returns how many batches of a kind are claimed and not finished."""
        known = [item for item in definitions if item.batch is not None]
        self._sizes = {item.kind: item.batch or 1 for item in known}
        self._most = {item.kind: item.batches for item in known}
        self._open = open_batches
        self._linger = linger
        self._poll_seconds = poll_seconds
        self._waits: dict[str, _Wait] = {}
        self._was_woken = False
        """Whether a wakeup arrived since the last look began: that look may not have seen its jobs."""

    def __contains__(self, kind: str) -> bool:
        return kind in self._sizes

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def to_look_at(self, now: float) -> dict[str, int]:
        """Return the kinds to look at now, with their batch sizes."""
        sizes = {kind: size for kind, size in self._sizes.items() if self._due_in(kind, now) <= 0}
        self._was_woken = self._was_woken and not sizes
        return sizes

    def pause(self, longest: float, now: float) -> float:
        """Return how long to wait for a wakeup: at most until a kind with ready jobs is due."""
        due = (self._due_in(kind, now) for kind in self._waits)
        return max(0.0, min(longest, min(due, default=longest)))

    def _due_in(self, kind: str, now: float) -> float:
        most, wait = self._most[kind], self._waits.get(kind)
        if most is not None and self._open(kind) >= most:
            return self._poll_seconds
        return 0.0 if wait is None else wait.looked_at + wait.pause - now

    def woken(self) -> None:
        """Look again soon: jobs were enqueued, or a batch has ended."""
        self._was_woken = True  # a look under way may have missed them
        for wait in self._waits.values():
            wait.pause = min(wait.pause, LOOK_SECONDS)

    def looked(self, sizes: Mapping[str, int], found: Iterable[ReadyBatch], now: float) -> list[BatchClaim]:
        """Return the claims to make after a look at these kinds."""
        ready = {batch.kind: batch for batch in found}
        for kind in sizes.keys() - ready.keys():
            self._waits.pop(kind, None)
        claims = (self._to_claim(ready[kind], now) for kind in sizes if kind in ready)
        return [claim for claim in claims if claim is not None]

    def _to_claim(self, ready: ReadyBatch, now: float) -> BatchClaim | None:
        size = self._sizes[ready.kind]
        wait = self._waits.setdefault(ready.kind, _Wait(now, now, now))
        if wait.newest != ready.newest:
            wait.newest, wait.changed_at = ready.newest, now
        wait.looked_at, wait.pause = now, 0.0
        is_full = ready.jobs >= size
        until = wait.since + MAX_LINGERS * self._linger
        until = until if is_full else min(until, wait.changed_at + self._linger)
        if is_full and (now < until or not wait.failures):
            return BatchClaim(ready.kind, size, size)
        if now >= until:
            return BatchClaim(ready.kind, size, 1)
        wait.pause = min(until - now, LOOK_SECONDS) if self._was_woken else until - now
        return None

    def claimed(self, claim: BatchClaim, jobs: int) -> None:
        """Record how many jobs a claim returned. Kinds take turns: a kind that was served comes last."""
        if jobs:
            self._waits.pop(claim.kind, None)
            self._sizes[claim.kind] = self._sizes.pop(claim.kind)
        else:  # prevented by a limit or a missing capability, or another worker was faster
            wait = self._waits[claim.kind]
            wait.pause = min(LOOK_SECONDS * 2**wait.failures, self._poll_seconds)
            wait.failures = min(wait.failures + 1, 20)


class SingleClaims:
    """When to claim jobs of other kinds, in a worker that has batch kinds. Times are of the monotonic clock.

    Every job of a batch kind that is enqueued wakes the worker, and so does every batch that ends. Claims of
    other jobs after each of them would cost more than the jobs of the batch.
    """

    def __init__(self) -> None:
        self._is_hinted = False
        self._was_hinted = False
        self._hint_due_at = 0.0
        self._poll_at: float | None = None
        """None: now, because the last claim returned jobs."""

    def hint(self) -> None:
        """Claim soon: jobs may be ready."""
        self._is_hinted = True

    def are_due(self, now: float) -> bool:
        """Return whether to claim now: after a hint, or because it is time to poll."""
        return self._due_in(now) <= 0

    def pause(self, longest: float, now: float) -> float:
        """Return how long to wait for a wakeup: until a claim is due, at most ``longest``."""
        self._poll_at = now + longest if self._poll_at is None else min(self._poll_at, now + longest)
        return max(0.0, min(longest, self._due_in(now)))

    def _due_in(self, now: float) -> float:
        if self._is_hinted:
            return self._hint_due_at - now
        return 0.0 if self._poll_at is None else self._poll_at - now

    def starting(self) -> None:
        """Record that a claim starts. A hint from now on concerns the next one."""
        self._was_hinted, self._is_hinted = self._is_hinted, False

    def claimed(self, jobs: int, now: float, poll_pause: float) -> None:
        """Record how many jobs the claim returned.

        Without any, the next claim is after a hint or after ``poll_pause``. If this claim followed a hint,
        hints are about batch kinds, and the next one counts after LOOK_SECONDS.
        """
        self._poll_at = None if jobs else now + poll_pause
        self._hint_due_at = now + LOOK_SECONDS if self._was_hinted and not jobs else 0.0
