"""Posthouse, for the figures that are measured in turns with the peers: see turns.py."""

from __future__ import annotations

from typing import Any

import psycopg

import posthouse
from posthouse.settings import Settings
from posthouse.storage.migrations import migrate
from posthouse.storage.queries import query

from .protocol import Payload, Tally, main


class PosthousePeer:
    package = "posthouse"
    settings: dict[str, Any] = {}  # noqa: RUF012  the protocol asks for an instance attribute

    async def open(self, url: str) -> None:
        self._url = url
        self._client = posthouse.Client(url)

    async def setup(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            migrate(connection)
            connection.execute(query("bench_define"))

    async def enqueue_one(self, payload: Payload) -> None:
        await self._client.enqueue("noop", payload)

    async def enqueue_bulk(self, payloads: list[Payload]) -> None:
        await self._client.enqueue_many([posthouse.Request(kind="noop", payload=each) for each in payloads])

    async def work(self, tally: Tally) -> None:
        app = posthouse.App(settings=Settings(database_url=self._url))

        @app.job()
        async def noop(sent: float, pad: str) -> None:  # noqa: ARG001  the payload is what is measured
            if tally.timed:
                tally.started_late(sent)
            else:
                tally.started()

        await app.work()


if __name__ == "__main__":
    main(PosthousePeer())
