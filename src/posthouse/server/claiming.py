"""Claims for remote workers: at once, or when there is something."""

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
"""How often a waiting claim looks for itself: some work comes without anybody being told."""
POLL_SECONDS = 0.5
"""The same where nobody can be told."""


async def claim(staff: Staff, wakeups: Wakeups, access: Access, asked: Claiming, request: Request) -> bytes:
    """The answer. Looks first at what claims took whose answers were not heard."""
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
        if await request.is_disconnected():  # what it would get now, nobody would take
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
