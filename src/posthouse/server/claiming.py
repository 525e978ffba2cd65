"""Claims of remote workers, with optional long polling."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from fastapi import Request
from pydantic_core import to_json

from posthouse.server.access import Access
from posthouse.server.shapes import Claiming
from posthouse.server.staff import Staff
from posthouse.server.wakeups import READY, Wakeups
from posthouse.storage.claimed import job_json
from posthouse.storage.leases import Claim

LOOK_SECONDS = 2.0
"""Poll interval of a waiting claim: some jobs become ready without a notification."""
POLL_SECONDS = 0.5
"""Poll interval where notifications are not available (behind a pooler)."""


async def claim(staff: Staff, wakeups: Wakeups, access: Access, asked: Claiming, request: Request) -> bytes:
    """Return the response. Claims whose response the worker did not receive are recovered first."""
    if asked.unanswered:
        await staff.demand(access, asked.worker_id)
        recovered = await staff.recover(asked.worker_id, asked.lease_seconds, asked.unanswered)
        if recovered:
            return _answer(asked, Claim(asked.token or uuid4(), [], 0.0), 0.0, recovered)
    arrived = time.monotonic()
    while True:
        cursor = wakeups.cursor
        if asked.hungry or asked.wait_seconds:
            await wakeups.hunger.feel(asked.queues)
        begun = time.monotonic()
        found = await staff.claim(
            access, asked.worker_id, asked.lease_seconds, asked.token or uuid4(), _wanted(asked)
        )
        left = arrived + asked.wait_seconds - time.monotonic()
        if found.rows or left <= 0 or wakeups.stopping:
            return _answer(asked, found, begun - arrived, [])
        pause = LOOK_SECONDS if wakeups.possible else POLL_SECONDS
        await wakeups.wait(cursor, [(READY, queue) for queue in asked.queues], min(left, pause))
        if await request.is_disconnected():  # a job claimed now would never reach the worker
            return _answer(asked, found, 0.0, [])


def _wanted(asked: Claiming) -> dict[str, Any]:
    return {
        "queues": asked.queues,
        "kinds": asked.kinds,
        "limit": asked.limit,
        "marks": dict(asked.marks),
        "careful": asked.careful,
        "offers": asked.offers,
        "served": asked.served,
        "patience": asked.patience_seconds,
        "least": asked.least,
    }


def _answer(asked: Claiming, found: Claim, waited: float, recovered: list[Claim]) -> bytes:
    again = [b'{"token":%b,"jobs":%b}' % (to_json(claim.token), _jobs(asked, claim)) for claim in recovered]
    return b'{"token":%b,"waited_seconds":%b,"jobs":%b,"recovered":[%b]}' % (
        to_json(found.token),
        to_json(round(waited, 6)),
        _jobs(asked, found),
        b",".join(again),
    )


def _jobs(asked: Claiming, claim: Claim) -> bytes:
    jobs = (job_json(row, payload_as_text=asked.payload_as_text) for row in claim.rows)
    return b"[%b]" % b",".join(jobs)
