"""Receive notifications from the server: ready jobs, cancellations and changed definitions.

One long-poll request is pending at any time. Its response has a cursor, so that nothing between two requests
is missed. A server that does not know the cursor, because it was restarted, reports that everything may have
changed.
"""

from __future__ import annotations

from uuid import UUID

from pydantic_core import to_json

from posthouse.worker.backend import AWAY, Hearing
from posthouse.worker.remote.line import HttpLine

WAIT_SECONDS = 25.0
"""Less than the request timeout of common proxies."""
MARGIN_SECONDS = 10.0


class RemoteListener:
    def __init__(
        self,
        line: HttpLine,
        worker_id: UUID,
        queues: set[str],
        tell: Hearing,
    ) -> None:
        self._line = line
        self._worker = str(worker_id)
        self._queues = queues
        self._tell = tell
        self._cursor = ""
        self.works = True
        self.listening = False  # the server reads definitions for many workers: asking it costs little

    async def run(self) -> None:
        while self.works:
            try:
                await self._listen()
            except AWAY:
                self._cursor = ""

    async def _listen(self) -> None:
        body = {
            "worker_id": self._worker,
            "queues": sorted(self._queues),
            "cursor": self._cursor,
            "wait_seconds": WAIT_SECONDS,
        }
        answer = await self._line.post("notices", to_json(body), seconds=WAIT_SECONDS + MARGIN_SECONDS)
        self._cursor, self.works = answer["cursor"], answer["listening"]
        if answer["missed"]:
            self._tell.listening()
        if answer["missed"] or answer["cancel"]:
            self._tell.cancel()
        if answer["missed"] or answer["definitions"]:
            self._tell.definitions()
        if answer["work"]:
            self._tell.work()
