"""A worker whose job never ends: to be killed."""

import asyncio
import sys

import posthouse
from posthouse.settings import Settings

app = posthouse.App(settings=Settings(database_url=sys.argv[1], heartbeat_seconds=0.2, lease_seconds=2.0))


@app.job()
async def sleep() -> None:
    await asyncio.sleep(3600)


app.run_worker(keeper=False)
