"""Deletes the content of deleted artifacts from the artifact storage of this server."""

from __future__ import annotations

import asyncio
import logging

import psycopg

from posthouse.blobs import Store
from posthouse.server.uploads import Uploads
from posthouse.storage.artifacts import discarded_blobs, forget_blobs
from posthouse.storage.connect import Running

_log = logging.getLogger("posthouse.server")

ROUND_SECONDS = 60.0
BATCH = 200


class Sweeper:
    name = "sweeper"

    def __init__(self, line: Running, store: Store, uploads: Uploads) -> None:
        self._line = line
        self._store = store
        self._uploads = uploads

    async def run_once(self) -> dict[str, int]:
        await asyncio.to_thread(self._uploads.tidy)
        deleted = 0
        while places := await discarded_blobs(self._line, BATCH):
            for place in places:
                await self._store.delete(place)
            await forget_blobs(self._line, places)
            deleted += len(places)
        return {"deleted": deleted}

    def pause(self) -> float:
        return ROUND_SECONDS

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except (psycopg.Error, OSError) as error:
                _log.warning("artifact clean-up failed, retrying in %.0f s: %s", ROUND_SECONDS, error)
            await asyncio.sleep(self.pause())
