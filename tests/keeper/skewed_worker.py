"""A worker and keeper on a machine whose clock is wrong: enqueues jobs that are due soon, and runs them."""

import datetime as dt
import sys
import time

URL, SKEW = sys.argv[1], float(sys.argv[2])

true_time, true_time_ns, true_datetime = time.time, time.time_ns, dt.datetime


class SkewedDatetime(true_datetime):
    @classmethod
    def now(cls, tz=None):
        return true_datetime.now(tz) + dt.timedelta(seconds=SKEW)

    @classmethod
    def utcnow(cls):
        return true_datetime.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(seconds=SKEW)


# Before anything of Posthouse is imported, so that it sees no other clock.
time.time = lambda: true_time() + SKEW
time.time_ns = lambda: true_time_ns() + int(SKEW * 1e9)
dt.datetime = SkewedDatetime

import asyncio  # noqa: E402

import posthouse  # noqa: E402
from posthouse.keeper.keeper import Keeper  # noqa: E402
from posthouse.settings import Settings  # noqa: E402

settings = Settings(database_url=URL, heartbeat_seconds=0.2, lease_seconds=20, rescue_grace_seconds=0)
app = posthouse.App(settings=settings)


@app.job()
async def delayed():
    pass


@app.job(retry=posthouse.Retry("300ms"))
async def retried(job):
    if job.attempt == 1:
        raise ValueError


async def main():
    assert abs(time.time() - true_time()) > 80000
    keeper = Keeper(URL, settings)
    worker = await app.worker()
    await worker.start()
    await keeper.start()
    handles = [
        await job.using(delay=f"{100 * number}ms").enqueue()
        for job in (delayed, retried)
        for number in range(10)
    ]
    for handle in handles:
        await handle.wait("40s")
    await worker.stop()
    await keeper.stop()
    await app.close()


asyncio.run(main())
