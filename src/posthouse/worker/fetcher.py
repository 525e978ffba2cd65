"""Claim jobs: in batches while the queue is deep, at once after a wakeup, otherwise by polling."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter

from posthouse.storage.claimed import ClaimedJob
from posthouse.storage.leases import Claim, ClaimOptions
from posthouse.waiting import Backoff
from posthouse.worker.attempt import Attempt
from posthouse.worker.backend import REJECTED, UNREACHABLE, LeaseStore, LeaseTiming
from posthouse.worker.batches import BatchClaim, Batches, SingleClaims
from posthouse.worker.executor import Executor
from posthouse.worker.handlers import MAX_BATCH
from posthouse.worker.services import JobServices

MIN_CLAIMS_REMEMBERED = 8


class FairShare:
    """The number of jobs served per tenant, divided by the tenant's weight. Claims prefer low values.

    A tenant without jobs in the last claims is removed. When it has jobs again, it starts with the lowest
    value of the others; otherwise it could catch up for its idle time at their cost.
    """

    def __init__(self) -> None:
        self.weights: Mapping[str, float] = {}
        """Weights of the tenants whose weight is not 1."""
        self.usage: dict[str, float] = {}
        self._last: dict[str, int] = {}
        self._claims = 0

    def record_claim(self, tenants: Iterable[str]) -> None:
        """Count the jobs of a claim."""
        self._claims += 1
        taken = Counter(tenants)
        level = min(self.usage.values(), default=0.0)
        for tenant, jobs in taken.items():
            self.usage[tenant] = self.usage.get(tenant, level) + jobs / self.weights.get(tenant, 1.0)
            self._last[tenant] = self._claims
        if len(self.usage) > len(taken):
            self._drop_idle_tenants()

    def _drop_idle_tenants(self) -> None:
        oldest = self._claims - max(MIN_CLAIMS_REMEMBERED, 2 * len(self.usage))
        for tenant in [name for name, last in self._last.items() if last < oldest]:
            del self.usage[tenant], self._last[tenant]


_log = logging.getLogger("posthouse.worker")

MAX_CLAIM = MAX_BATCH
MAX_PREFETCH = 1000
MAX_LANE_CURSORS = 5000
PREFETCH_SECONDS = 0.05
"""At most as many jobs are prefetched as finish in this time, so that they start soon and a worker that dies
holds few of them.
"""
FIRST_PAUSE = 0.02
FULL_CLAIMS_BEFORE_CANCEL = 4
SETTINGS_TTL_SECONDS = 10.0
SLOW_SCAN_SECONDS = 0.02
RESCAN_INTERVAL_SECONDS = 1.0
"""How often full lanes are read from their start, to find jobs that were committed late."""
MAX_RESCAN_INTERVAL_SECONDS = 10.0
"""Maximum time until a job that was committed late, below the cursor, is found, even if scans are slow."""
# Items of a named tuple are faster to read than attributes.
_BY_PRIORITY_AND_POSITION = itemgetter(*map(ClaimedJob._fields.index, ("priority", "position")))
_TENANT = itemgetter(ClaimedJob._fields.index("tenant_id"))


class Fetcher:
    """The loop that claims jobs for an executor."""

    def __init__(
        self,
        leases: LeaseStore,
        executor: Executor,
        services: JobServices,
        *,
        queues: Sequence[str],
        kinds: Sequence[str],
        batches: Batches,
        capabilities: Sequence[str],
        poll_seconds: float,
        preference_wait: float,
    ) -> None:
        self._leases = leases
        self._executor = executor
        self._services = services
        self._queues = queues
        self._kinds = kinds
        self._batches = batches
        self._batches_first = False
        self._singles = SingleClaims()
        self._pending_subscription: tuple[Sequence[str], Sequence[str]] | None = None
        self._capabilities = capabilities
        self._poll_seconds = poll_seconds
        self._preference_wait = preference_wait
        self._shares = FairShare()
        self._cursors: dict[int, int] = {}
        self._batch_cursors: dict[int, int] = {}
        """The cursors of batch kinds. Without other cursors, a claim of other kinds needs no rescan."""
        self._wakeup = asyncio.Event()
        self._pause = FIRST_PAUSE
        self._wants_wakeup = False
        self._is_poll = False
        self._full_claims = 0
        self._rescan_at = 0.0
        self._rescan_full_at = 0.0
        self._was_full = False
        self._settings_at = 0.0
        self._has_rate_limits = False
        self._prefetch = 0
        self._rate_from = (time.monotonic(), 0)
        self._idle_seconds: float | None = None
        self.resting = asyncio.Event()
        self.claimed = asyncio.Event()
        self.can_receive_wakeups = False
        self.is_stopping = False
        self.is_suspended = False
        self._cancellations = 0
        self.on_missed_cancellation: Callable[[], None] = lambda: None
        """Called if a cancellation was notified during a claim: it may concern a job of that claim."""
        executor.on_suspect_end = self.wake
        executor.on_batch_end = self._look_for_batches

    def wake(self) -> None:
        self._singles.hint()
        self._look_for_batches()

    def _look_for_batches(self) -> None:
        self._batches.woken()
        self._is_poll = False
        self._wakeup.set()

    def _poll(self) -> None:
        self._is_poll = True
        self._wakeup.set()

    def note_cancellation(self) -> None:
        self._cancellations += 1

    @property
    def queues(self) -> Sequence[str]:
        return self._queues

    @property
    def group(self) -> Sequence[str]:
        """The kinds and capabilities that this fetcher claims for."""
        return (*self._kinds, *(f"+{word}" for word in self._capabilities))

    @property
    def has_room(self) -> bool:
        return self._executor.idle_slots > self._executor.queued_count

    def rely_on_hints(self, idle_seconds: float | None) -> None:
        """Poll at this interval, because hints report ready jobs; None: poll adaptively."""
        self._idle_seconds = idle_seconds

    def set_subscription(self, queues: Sequence[str], kinds: Sequence[str] | None = None) -> None:
        """Use other queues, and other kinds if given, from the next claim on."""
        self._pending_subscription = (queues, self._kinds if kinds is None else kinds)
        self.wake()

    async def _switch_subscription(self, queues: Sequence[str], kinds: Sequence[str]) -> None:
        if self._wants_wakeup and list(queues) != list(self._queues):
            with suppress(*UNREACHABLE):
                await self._leases.cancel_wakeup(self._queues)
            self._wants_wakeup = False
        self._queues, self._kinds, self._pending_subscription = queues, kinds, None
        self._pause = FIRST_PAUSE

    def on_listening(self) -> None:
        """Handle a new LISTEN connection: the wakeup request may have been lost with the old one."""
        self.can_receive_wakeups = True
        self._wants_wakeup = False
        self.wake()  # jobs enqueued before LISTEN

    async def run(self) -> None:
        backoff = Backoff()
        while not self.is_stopping:
            if self.is_suspended:
                await asyncio.sleep(FIRST_PAUSE)
                continue
            if self._pending_subscription is not None:
                await self._switch_subscription(*self._pending_subscription)
            want = self._claim_size()
            if want == 0:
                await self._executor.wait_for_capacity()
                continue
            try:
                found, more = await (self._fetch_both(want) if self._batches else self._fetch(want))
                backoff.reset()
                self.claimed.set()
            except (*UNREACHABLE, *REJECTED) as error:
                self._wants_wakeup = False
                pause = backoff.next()
                if not isinstance(error, UNREACHABLE):
                    _log.exception("claim failed, retrying in %g s", pause)
                await asyncio.sleep(pause)
                continue
            if found < want and not more:
                await self._wait_for_work()
            elif found >= want and self._wants_wakeup:
                await self._cancel_wakeup_if_busy()

    def _claim_size(self) -> int:
        """Return how many jobs to claim: one per idle slot, and a prefetch if jobs are short."""
        slots, waiting = self._executor.idle_slots, self._executor.queued_count
        if waiting > self._prefetch // 2 or (not slots and not self._prefetch):
            return 0
        return max(0, min(MAX_CLAIM, slots + self._prefetch_size() - waiting))

    def _prefetch_size(self) -> int:
        since, finished = self._rate_from
        now = time.monotonic()
        if now - since >= PREFETCH_SECONDS:
            rate = (self._executor.calls - finished) / (now - since)
            self._prefetch = max(0, min(MAX_PREFETCH, int(rate * PREFETCH_SECONDS)))
            self._rate_from = (now, self._executor.calls)
        return self._prefetch

    async def _fetch(self, want: int) -> tuple[int, bool]:
        """Claim jobs. Return how many were claimed, and whether there may be more."""
        if time.monotonic() >= self._settings_at:
            await self._refresh_settings()
        # Late commits can have positions below the cursor. Rescanning from the start is slow while an old
        # transaction blocks vacuum, so slow scans run less often.
        started = time.monotonic()
        from_start = self._was_full and started >= self._rescan_full_at
        found = (await self._claim(want, {} if from_start else self._cursors)).size
        self._was_full = found >= want
        if from_start:
            self._note_scan(started)
        if found and not self._was_full:
            await asyncio.sleep(0)  # start the claimed jobs first: the next claim takes half a millisecond
        if self._was_full or not self._cursors or time.monotonic() < self._rescan_at:
            return found, found > 0
        started = time.monotonic()
        again = (await self._claim(want - found, {})).size
        self._note_scan(started)
        return found + again, again > 0

    def _note_scan(self, started: float) -> None:
        spent = time.monotonic() - started
        pause = min(MAX_RESCAN_INTERVAL_SECONDS, 20 * spent) if spent > SLOW_SCAN_SECONDS else 0.0
        self._rescan_at = time.monotonic() + pause
        self._rescan_full_at = time.monotonic() + max(pause, RESCAN_INTERVAL_SECONDS)

    async def _fetch_both(self, want: int) -> tuple[int, bool]:
        """Claim batches and single jobs, in alternating order, so that neither takes all slots."""
        self._batches_first = not self._batches_first
        batches = await self._fetch_batches() if self._batches_first else 0
        want = self._claim_size() if batches else want
        found, more = await self._fetch_singles(want) if want and self._kinds else (0, False)
        if not self._batches_first and self._claim_size():
            batches = await self._fetch_batches()
        return found + batches, more or batches > 0

    async def _fetch_singles(self, want: int) -> tuple[int, bool]:
        if not self._singles.are_due(time.monotonic()):
            return 0, False
        self._singles.starting()
        found, more = await self._fetch(want)
        self._singles.claimed(found, time.monotonic(), self._poll_pause())
        return found, more

    async def _fetch_batches(self) -> int:
        """Claim at most one batch of each kind. Return the number of jobs."""
        sizes = self._batches.to_look_at(time.monotonic())
        if not sizes:
            return 0
        started = time.monotonic()
        lane_cursors = self._batch_cursors if started < self._rescan_at else {}
        ready = await self._leases.ready_batches(self._queues, sizes, lane_cursors)
        if not lane_cursors:
            self._note_scan(started)
        found = 0
        for batch in self._batches.looked(sizes, ready, time.monotonic()):
            if self._claim_size():
                jobs = (await self._claim(batch.limit, lane_cursors, batch)).size
                self._batches.claimed(batch, jobs)
                found += jobs
        return found

    async def _refresh_settings(self) -> None:
        self._shares.weights, self._has_rate_limits = await self._leases.claim_settings()
        self._settings_at = time.monotonic() + SETTINGS_TTL_SECONDS

    async def _claim(self, want: int, lane_cursors: dict[int, int], batch: BatchClaim | None = None) -> Claim:
        cancellations = self._cancellations
        options = ClaimOptions(
            self._queues,
            self._kinds if batch is None else [batch.kind],
            want,
            lane_cursors,
            allow_suspect=not self._executor.has_suspect,
            capabilities=self._capabilities,
            tenant_usage=self._shares.usage,
            preference_wait=self._preference_wait,
            min_jobs=0 if batch is None else batch.min_jobs,
        )
        claim = await self._leases.claim(options)
        # Recovered jobs are accepted even without a free slot: only leases of accepted jobs are renewed.
        for each in (claim, *claim.recovered):
            if each.rows:
                if self._was_not_notified(batch):
                    self._pause = FIRST_PAUSE
                self._accept(each)
                if self._cancellations != cancellations:
                    self.on_missed_cancellation()
        return claim

    def _was_not_notified(self, batch: BatchClaim | None) -> bool:
        """Return whether a claim found jobs that no notification announced. Batches also wait to be full."""
        if batch is not None and self.can_receive_wakeups:
            return False
        return self._is_poll or not self._wants_wakeup

    def _accept(self, claim: Claim) -> None:
        hex_token = claim.token.hex
        rows = sorted(claim.rows, key=_BY_PRIORITY_AND_POSITION)  # a claim returns rows in physical order
        attempts = [Attempt(row, claim.token, hex_token, claim.asked_at, self._services) for row in rows]
        expires = LeaseTiming(self._leases.lease_seconds).expires(claim.asked_at)
        lane_cursors = self._batch_cursors if rows and rows[0].kind in self._batches else self._cursors
        # lanes of keys are short-lived; without a cursor a lane is read from its start
        if len(lane_cursors) > MAX_LANE_CURSORS:
            lane_cursors.clear()
        for attempt in attempts:
            attempt.lease_expires_at = expires
            lane, position = attempt.row.lane, attempt.row.position
            if lane_cursors.get(lane, 0) < position:
                lane_cursors[lane] = position
        self._shares.record_claim(map(_TENANT, rows))
        self._executor.accept(attempts)

    async def _cancel_wakeup_if_busy(self) -> None:
        """Cancel the wakeup after several full claims in a row.

        After a single full claim, the wakeup would often be requested again at once.
        """
        self._full_claims += 1
        if self._full_claims >= FULL_CLAIMS_BEFORE_CANCEL:
            with suppress(*UNREACHABLE):
                await self._leases.cancel_wakeup(self._queues)
            self._wants_wakeup = False

    def _poll_pause(self) -> float:
        return self._pause if self._idle_seconds is None else self._idle_seconds

    def _batch_pause(self, pause: float, now: float) -> float:
        """Shorten the pause of a worker that has batch kinds."""
        return self._batches.pause(self._singles.pause(pause, now) if self._kinds else pause, now)

    async def _wait_for_work(self) -> None:
        """Request a wakeup, or wait for one, when there is nothing to claim."""
        self._full_claims = 0
        if self.can_receive_wakeups and not self._wants_wakeup:
            with suppress(*UNREACHABLE):
                await self._leases.request_wakeup(self._queues)
                self._wants_wakeup = True
                # Poll soon for enqueues that did not see the request and are committed later. Those that
                # begin now notify, and polls after their jobs would delay others: at 40 jobs/s, one job in
                # thirty arrived during a poll.
                self._pause = FIRST_PAUSE
                self._singles.hint()
            return  # claim again: a job may have been enqueued before the request was stored
        pause = self._poll_pause()
        if self._has_rate_limits:  # no notification is sent when the next token is available
            token = await self._leases.next_token(self._queues, self._kinds)
            pause = pause if token is None else min(pause, max(token, FIRST_PAUSE))
        if self._batches:
            pause = self._batch_pause(pause, time.monotonic())
        timer = asyncio.get_running_loop().call_later(pause, self._poll)
        self.resting.set()
        await self._wakeup.wait()  # not wait_for: it creates a task, and this delays every start
        self.resting.clear()
        timer.cancel()
        self._wakeup.clear()
        self._pause = min(self._pause * 2, self._poll_seconds)
