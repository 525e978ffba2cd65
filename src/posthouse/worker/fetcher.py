"""Claims jobs: in batches while the queue is deep, at once when woken, by polling otherwise."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter

from posthouse.storage.connect import retry_pause
from posthouse.storage.leases import Claim
from posthouse.worker.backend import AWAY, REFUSED, Leases
from posthouse.worker.executor import Executor
from posthouse.worker.job import Desk, Job
from posthouse.worker.shares import Shares

_log = logging.getLogger("posthouse.worker")

MAX_CLAIM = 500
MAX_AHEAD = 1000
MAX_MARKS = 5000
AHEAD_SECONDS = 0.05
"""Claimed jobs that wait for a slot: no more than are finished in this time, so that they start at once and
a dying worker takes little with it."""
FIRST_PAUSE = 0.02
FULL_CLAIMS = 4
RULES_SECONDS = 10.0
DEAR_SCAN_SECONDS = 0.02
IN_LINE = itemgetter(7, 9)  # of sql/claim.sql: priority, then position
TENANT = itemgetter(3)


class Fetcher:
    def __init__(
        self,
        leases: Leases,
        executor: Executor,
        desk: Desk,
        *,
        queues: Sequence[str],
        kinds: Sequence[str],
        offers: Sequence[str],
        poll_seconds: float,
        patience: float,
    ) -> None:
        self._leases = leases
        self._executor = executor
        self._desk = desk
        self._queues = queues
        self._kinds = kinds
        self._next: tuple[Sequence[str], Sequence[str]] | None = None
        self._offers = offers
        self._poll_seconds = poll_seconds
        self._patience = patience
        self._shares = Shares()
        self._marks: dict[int, int] = {}
        self._woken = asyncio.Event()
        self._pause = FIRST_PAUSE
        self._hungry = False
        self._full = 0
        self._rescan_at = 0.0
        self._rules_at = 0.0
        self._rated = False
        self._ahead = 0
        self._rate_from = (time.monotonic(), 0)
        self.can_be_woken = False
        self.stopping = False
        self.held_back = False
        executor.on_suspect_end = self.wake

    def wake(self) -> None:
        self._woken.set()

    def serve(self, queues: Sequence[str], kinds: Sequence[str] | None = None) -> None:
        """Other queues from the next claim on, and other kinds, if some are given."""
        self._next = (queues, self._kinds if kinds is None else kinds)
        self.wake()

    async def _turn_to(self, queues: Sequence[str], kinds: Sequence[str]) -> None:
        if self._hungry and list(queues) != list(self._queues):
            with suppress(*AWAY):
                await self._leases.be_fed(self._queues)
            self._hungry = False
        self._queues, self._kinds, self._next = queues, kinds, None
        self._pause = FIRST_PAUSE

    def can_hear(self) -> None:
        """The listener listens, or does so again: the wish to be woken may have gone with its connection."""
        self.can_be_woken = True
        self._hungry = False
        self.wake()  # what came while nobody listened

    async def run(self) -> None:
        failures = 0
        while not self.stopping:
            if self.held_back:
                await asyncio.sleep(FIRST_PAUSE)
                continue
            if self._next is not None:
                await self._turn_to(*self._next)
            want = self._want()
            if want == 0:
                await self._executor.room()
                continue
            try:
                found, more = await self._fetch(want)
                failures = 0
            except (*AWAY, *REFUSED) as error:
                if not isinstance(error, AWAY):
                    _log.exception("claiming failed; it goes on")
                self._hungry = False
                pause = retry_pause(failures)
                failures += 1
                await asyncio.sleep(pause)
                continue
            if found < want and not more:
                await self._rest()
            elif found >= want and self._hungry:
                await self._be_fed()

    def _want(self) -> int:
        """How many to claim: for each idle slot one, and some ahead if jobs are short."""
        slots, waiting = self._executor.idle_slots, self._executor.waiting
        if waiting > self._ahead // 2 or (not slots and not self._ahead):
            return 0
        return max(0, min(MAX_CLAIM, slots + self._measured_ahead() - waiting))

    def _measured_ahead(self) -> int:
        since, finished = self._rate_from
        now = time.monotonic()
        if now - since >= AHEAD_SECONDS:
            rate = (self._executor.finished - finished) / (now - since)
            self._ahead = min(MAX_AHEAD, int(rate * AHEAD_SECONDS))
            self._rate_from = (now, self._executor.finished)
        return self._ahead

    async def _fetch(self, want: int) -> tuple[int, bool]:
        """How many were claimed, and whether there may be more at once."""
        if time.monotonic() >= self._rules_at:
            await self._read_rules()
        found = len((await self._claim(want, self._marks)).rows)
        if found >= want or not self._marks or time.monotonic() < self._rescan_at:
            return found, found > 0
        # What was committed late lies behind the marks. Looking there can be dear while the horizon
        # is pinned, so it is done less often the longer it takes.
        if found:
            await asyncio.sleep(0)  # what was claimed starts first: asking again takes half a millisecond
        started = time.monotonic()
        again = len((await self._claim(want - found, {})).rows)
        spent = time.monotonic() - started
        self._rescan_at = time.monotonic() + (20 * spent if spent > DEAR_SCAN_SECONDS else 0.0)
        return found + again, again > 0

    async def _read_rules(self) -> None:
        self._shares.weights, self._rated = await self._leases.claim_rules()
        self._rules_at = time.monotonic() + RULES_SECONDS

    async def _claim(self, want: int, marks: dict[int, int]) -> Claim:
        claim = await self._leases.claim(
            self._queues,
            self._kinds,
            want,
            marks,
            careful=not self._executor.has_suspect,
            offers=self._offers,
            served=self._shares.served,
            patience=self._patience,
        )
        if claim.rows:
            self._pause = FIRST_PAUSE
            self._accept(claim)
        return claim

    def _accept(self, claim: Claim) -> None:
        hex_token = claim.token.hex
        rows = sorted(claim.rows, key=IN_LINE)  # a claim returns them as they lie on disk
        jobs = [Job(row, claim.token, hex_token, claim.asked_at, self._desk) for row in rows]
        expires = claim.asked_at + self._leases.lease_seconds * 0.9
        marks = self._marks
        if len(marks) > MAX_MARKS:  # lanes of keys come and go; without a mark a lane is read from its start
            marks.clear()
        for job in jobs:
            job.expires = expires
            lane, position = job.lane, job.position
            if marks.get(lane, 0) < position:
                marks[lane] = position
        self._shares.count(map(TENANT, rows))
        self._executor.accept(jobs)

    async def _be_fed(self) -> None:
        """The queue is deep: until it is not, nobody need wake us. Not at once, or it would go to and fro."""
        self._full += 1
        if self._full >= FULL_CLAIMS:
            with suppress(*AWAY):
                await self._leases.be_fed(self._queues)
            self._hungry = False

    async def _rest(self) -> None:
        """Nothing more to claim for now."""
        self._full = 0
        if self.can_be_woken and not self._hungry:
            with suppress(*AWAY):
                await self._leases.be_hungry(self._queues)
                self._hungry = True
            return  # look once more: a job may have come before the lock was held
        pause = self._pause
        if self._rated:  # nobody wakes us when the next token comes
            token = await self._leases.next_token(self._queues, self._kinds)
            pause = pause if token is None else min(pause, max(token, FIRST_PAUSE))
        timer = asyncio.get_running_loop().call_later(pause, self._woken.set)
        await self._woken.wait()  # not wait_for: it makes a task, and this is on the way to every start
        timer.cancel()
        self._woken.clear()
        self._pause = min(self._pause * 2, self._poll_seconds)
