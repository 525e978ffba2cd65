"""Limits, shares and capabilities, seen from handlers."""

import asyncio
from collections import Counter

import pytest

from posthouse import Limit, Request, testing
from posthouse.errors import ConfigurationError, InvalidJob


class PollPacer:
    """How many were in it at most, by name."""

    def __init__(self):
        self.now, self.most = Counter(), Counter()

    async def visit(self, *names):
        for name in names:
            self.now[name] += 1
            self.most[name] = max(self.most[name], self.now[name])
        await asyncio.sleep(0.002)
        self.now.subtract(names)


async def test_no_more_run_at_a_time_than_a_limit_says(app):
    crowd = PollPacer()

    @app.job(limits=[Limit(running=3)])
    async def task() -> None:
        await crowd.visit("all")

    await app.client.enqueue_many([task.request({}) for _ in range(60)])
    assert await testing.drain(app) == {"succeeded": 60}
    assert 1 <= crowd.most["all"] <= 3


async def test_a_limit_per_key_counts_by_a_place_in_the_payload(app):
    crowd = PollPacer()

    @app.job(limits=[Limit(running=1, per="key")], limit_by="user")
    async def task(user: int) -> None:
        await crowd.visit(user, "all")

    await app.client.enqueue_many([task.request({"user": number % 5}) for number in range(40)])
    await task.using(limit_key="mine").enqueue(user=1)
    assert await testing.drain(app) == {"succeeded": 41}
    assert max(crowd.most[user] for user in (0, 2, 3, 4)) == 1
    assert crowd.most["all"] > 1


async def test_kinds_share_a_limit_by_its_name(app):
    crowd = PollPacer()
    shared = Limit(name="printer", running=2)

    @app.job(limits=[shared])
    async def letter() -> None:
        await crowd.visit("printer")

    @app.job(limits=[shared])
    async def poster() -> None:
        await crowd.visit("printer")

    await app.client.enqueue_many([kind.request({}) for _ in range(20) for kind in (letter, poster)])
    assert await testing.drain(app) == {"succeeded": 40}
    assert crowd.most["printer"] <= 2


async def test_a_rate_is_kept_and_everything_runs_in_the_end(app, db):
    @app.job(limits=[Limit(rate="50/s", burst=5)])
    async def task() -> None:
        pass

    await app.client.enqueue_many([task.request({}) for _ in range(30)])
    assert await testing.drain(app) == {"succeeded": 30}
    early = db.execute(
        "select count(*) from posthouse.history where attempt_started_at < "
        "(select min(attempt_started_at) from posthouse.history) + interval '100 ms'"
    ).fetchone()[0]
    assert early <= 5 + 50 * 0.1 + 1


async def test_a_worker_without_a_capability_leaves_the_job_to_one_that_has_it(app, db):
    @app.job(requires=["gpu"])
    async def render() -> str:
        return "done"

    @app.job()
    async def plain() -> None:
        pass

    handle, other = await render.enqueue(), await plain.enqueue()
    unable = await app.worker()
    await unable.start()
    await other.wait("60s")
    await unable.stop()
    [status] = db.execute("select status from posthouse.jobs where id = %s", (handle.id,)).fetchone()
    assert status == "queued"
    able = await app.worker(capabilities="gpu")
    await able.start()
    assert await handle.wait("60s") == "done"
    await able.stop()


async def test_a_job_may_require_more_than_its_kind(app, db):
    @app.job()
    async def task() -> None:
        pass

    await task.using(requires=["codec:h264"]).enqueue()
    await app.client.enqueue_many([task.request({}, {"requires": ["gpu"]})])
    found = db.execute("select requires from posthouse.jobs order by queued_at").fetchall()
    assert found == [(["codec:h264"],), (["gpu"],)]


async def test_bulk_and_single_land_in_the_same_line(app, db):
    @app.job(requires=["gpu"], prefers=["fast"])
    async def task(text: str) -> None:
        pass

    worker = await app.worker()
    await worker.start()
    await worker.stop()
    await app.client.enqueue("task", {"text": "one"})
    await app.client.enqueue_many([task.request({"text": str(number)}) for number in range(3)])
    await app.client.enqueue_many([Request(kind="task", payload={"text": "x"})] * 3)
    assert db.execute("select count(distinct lane), count(*) from posthouse.ready").fetchone() == (1, 7)
    assert db.execute("select requires, prefers from posthouse.lanes").fetchall() == [(["gpu"], ["fast"])]


async def test_a_small_tenant_does_not_wait_for_a_large_one(app):
    order = []

    @app.job()
    async def task(job, name: str) -> None:
        order.append(name)

    large = [task.request({"name": "large"}, {"tenant": "large"}) for _ in range(3_000)]
    await app.client.enqueue_many(large)
    await app.client.enqueue_many([task.request({"name": "small"}, {"tenant": "small"}) for _ in range(3)])
    await testing.drain(app)
    assert max(index for index, name in enumerate(order) if name == "small") < 1_500


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"running": -1},
        {"rate": "often"},
        {"rate": "0/s"},
        {"rate": "5/0s"},
        {"running": 1, "per": "moon"},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(fields):
    with pytest.raises(ConfigurationError):
        Limit(**fields)


async def test_an_invalid_capability_is_rejected(app):
    @app.job()
    async def task() -> None:
        pass

    with pytest.raises(InvalidJob, match="capability"):
        await task.using(requires=["a b"]).enqueue()
    with pytest.raises(ConfigurationError, match="capability"):
        await app.worker(capabilities="gpu,{x}")
