"""A client of live streams, as a browser is one: it reads blocks and remembers the last id."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import httpx

from support.waiting import WAIT_SECONDS


class Stream:
    def __init__(self, response):
        self.response = response
        self.events = []
        self.comments = 0
        self.last_id = None
        self.retry = None
        self.ended = False
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self):
        name, data = None, []
        try:
            async for line in self.response.aiter_lines():
                field, _, value = line.partition(": ")
                if not line:
                    if data:
                        self.events.append((name, json.loads("\n".join(data))))
                    name, data = None, []
                elif not field:
                    self.comments += 1
                elif field == "event":
                    name = value
                elif field == "data":
                    data.append(value)
                elif field == "id":
                    self.last_id = value
                elif field == "retry":
                    self.retry = int(value)
        except httpx.HTTPError:
            pass
        self.ended = True

    def of(self, name):
        return [data for event, data in self.events if event == name]

    def statuses(self, job_id):
        return [job["status"] for job in self.of("job") if job["id"] == str(job_id)]

    async def until(self, condition, seconds=WAIT_SECONDS):
        """The first true value of the condition on this stream."""
        async with asyncio.timeout(seconds):
            while not (value := condition(self)):
                await asyncio.sleep(0.01)
        return value

    async def close(self):
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


@asynccontextmanager
async def streaming(client, *, last_id=None, **query):
    headers = {"Last-Event-ID": last_id} if last_id else {}
    async with client.stream("GET", "/api/v1/stream", params=query, headers=headers, timeout=60) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = Stream(response)
        try:
            yield stream
        finally:
            await stream.close()
