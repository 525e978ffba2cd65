"""Batch handlers get full batches, and neither they nor other kinds wait for each other."""

import asyncio

import pytest

import posthouse
from posthouse import testing
from posthouse.errors import ConfigurationError
from posthouse.storage.leases import ReadyBatch
from posthouse.worker.batches import LOOK_SECONDS, BatchClaim, Batches, SingleClaims
from support.waiting import eventually
from support.workers import job_status, running_worker, status_counts

LONG = 600.0
"""A linger that no test waits for: only full batches start."""


async def _enqueue(app, job_type, count):
    return await app.client.enqueue_many([job_type.request({}) for _ in range(count)])


async def test_jobs_that_are_inserted_singly_are_run_in_full_batches(app, db):
    sizes = []

    @app.job(batch=50)
    async def embed(jobs: list[posthouse.Job]):
        sizes.append(len(jobs))

    async with running_worker(app, batch_linger_seconds=LONG, keeper=False):
        for _ in range(200):
            await embed.enqueue()
        await eventually(lambda: sum(sizes) == 200)
    assert sizes == [50] * 4


async def test_two_workers_do_not_split_a_batch(app, db):
    sizes = []

    @app.job(batch=20)
    async def embed(jobs: list[posthouse.Job]):
        sizes.append(len(jobs))

    async with (
        running_worker(app, batch_linger_seconds=LONG, keeper=False),
        running_worker(app, batch_linger_seconds=LONG, keeper=False),
    ):
        await asyncio.gather(*(embed.enqueue() for _ in range(100)))
        await eventually(lambda: sum(sizes) == 100)
    assert sizes == [20] * 5


async def test_a_lone_job_runs_after_the_linger(app, db):
    @app.job(batch=50)
    async def embed(jobs: list[posthouse.Job]):
        return [len(jobs)] * len(jobs)

    async with running_worker(app, keeper=False):
        handle = await embed.enqueue()
        assert await handle.wait("60s") == 1


async def test_a_worker_runs_batches_and_other_kinds_in_turn(app, db):
    order = []

    @app.job(batch=5)
    async def many(jobs: list[posthouse.Job]):
        order.append("many")

    @app.job(batch=5)
    async def more(jobs: list[posthouse.Job]):
        order.append("more")

    @app.job()
    async def one():
        order.append("one")
        await asyncio.sleep(0)

    for job_type, count in ((many, 50), (more, 50), (one, 10)):
        await _enqueue(app, job_type, count)
    async with running_worker(app, concurrency=1, keeper=False):
        await eventually(lambda: len(order) == 30)
    assert {"many", "more", "one"} <= set(order[:8])


async def test_a_batch_gets_a_turn_among_many_short_jobs(app, db):
    order = []

    @app.job(batch=5)
    async def many(jobs: list[posthouse.Job]):
        order.append("many")

    @app.job()
    async def one():
        order.append("one")

    await _enqueue(app, one, 2000)
    await _enqueue(app, many, 5)
    async with running_worker(app, concurrency=2, keeper=False):
        await eventually(lambda: len(order) == 2001)
    assert order.index("many") < 1000


async def test_a_stuck_batch_does_not_block_other_batches(app, db):
    stuck, go_on, sizes = asyncio.Event(), asyncio.Event(), []

    @app.job(batch=10, batches=2)
    async def embed(jobs: list[posthouse.Job]):
        if not stuck.is_set():
            stuck.set()
            await go_on.wait()
        sizes.append(len(jobs))

    await _enqueue(app, embed, 50)
    async with running_worker(app, keeper=False):
        await asyncio.wait_for(stuck.wait(), 20)
        # Outcomes are written behind the handlers: other batches may have started by then.
        await eventually(lambda: status_counts(db) == {"running": 10, "succeeded": 40})
        assert sizes == [10] * 4
        go_on.set()
        await eventually(lambda: status_counts(db) == {"succeeded": 50})


async def test_a_worker_claims_no_more_batches_than_it_may_run(app, db):
    running, most, full, go_on = 0, 0, asyncio.Event(), asyncio.Event()

    @app.job(batch=10, batches=2)
    async def embed(jobs: list[posthouse.Job]):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            full.set()
        await go_on.wait()
        running -= 1

    @app.job()
    async def other():
        pass

    await _enqueue(app, embed, 60)
    async with running_worker(app, keeper=False):
        await asyncio.wait_for(full.wait(), 20)
        await (await other.enqueue()).wait("60s")  # the worker has claimed again
        assert (status_counts(db)["running"], status_counts(db)["queued"]) == (20, 40)
        go_on.set()
        await eventually(lambda: status_counts(db)["succeeded"] == 61)
    assert most == 2


async def test_a_worker_that_stops_loses_no_job_of_a_batch(app, db):
    started = asyncio.Event()

    @app.job(batch=10)
    async def embed(jobs: list[posthouse.Job]):
        started.set()
        if not hasattr(app, "second"):
            await asyncio.sleep(3600)

    await _enqueue(app, embed, 25)
    async with running_worker(app, concurrency=1, keeper=False) as worker:
        await asyncio.wait_for(started.wait(), 20)
        await worker.stop(0)
    assert status_counts(db) == {"queued": 25}
    app.second = True
    assert await testing.drain(app) == {"succeeded": 25}
    assert db.execute("select max(attempt_count) from posthouse.jobs").fetchone() == (1,)


async def test_jobs_that_arrive_while_a_worker_stops_stay_queued(app, db):
    @app.job(batch=10)
    async def embed(jobs: list[posthouse.Job]):
        pass

    async with running_worker(app, batch_linger_seconds=LONG, keeper=False):
        handles = await _enqueue(app, embed, 3)
    assert {job_status(db, handle.id) for handle in handles} == {"queued"}


async def test_a_limit_below_the_batch_size_makes_smaller_batches(app, db):
    sizes = []

    @app.job(batch=10, limits=[posthouse.Limit(running=4)])
    async def embed(jobs: list[posthouse.Job]):
        sizes.append(len(jobs))

    await _enqueue(app, embed, 12)
    async with running_worker(app, batch_linger_seconds=0.01):
        await eventually(lambda: sum(sizes) == 12)
    assert max(sizes) == 4


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"batch": 501}, {"batches": 2}, {"batch": 5, "batches": 0}]
)
def test_sizes_that_cannot_be_are_refused(app, options):
    with pytest.raises(ConfigurationError, match="batch"):
        app.job("embed", **options)(lambda jobs: None)


def _batches(app, *names, linger=1.0, most=None):
    for name in names:
        app.job(name, batch=10, batches=most)(lambda jobs: None)
    open_batches = dict.fromkeys(names, 0)
    chosen = [app.definitions[name] for name in names]
    batches = Batches(chosen, open_batches.__getitem__, linger=linger, poll_seconds=1.0)
    return batches, open_batches


def _look(batches, now, *ready):
    return batches.looked(batches.to_look_at(now), [ReadyBatch(*each) for each in ready], now)


def test_a_batch_waits_as_long_as_jobs_arrive(app):
    batches, _ = _batches(app, "a")
    assert _look(batches, 0.0, ("a", 3, 3)) == []
    assert batches.to_look_at(0.5) == {}
    assert batches.pause(60.0, 0.5) == 0.5
    batches.woken()
    assert _look(batches, 0.5, ("a", 5, 5)) == []
    assert _look(batches, 1.5, ("a", 5, 5)) == [BatchClaim("a", 10, 1)]


def test_a_job_that_arrives_during_a_look_is_found_by_another_look_soon(app):
    batches, _ = _batches(app, "a", linger=600.0)
    sizes = batches.to_look_at(0.0)
    batches.woken()
    assert batches.looked(sizes, [ReadyBatch("a", 9, 9)], 0.0) == []
    assert batches.pause(60.0, 0.0) < 1.0
    assert _look(batches, 1.0, ("a", 10, 10)) == [BatchClaim("a", 10, 10)]


def test_a_batch_that_never_fills_starts_after_ten_lingers(app):
    batches, _ = _batches(app, "a")
    assert [_look(batches, float(now), ("a", 2, now)) for now in range(10)] == [[]] * 10
    assert _look(batches, 10.0, ("a", 2, 10)) == [BatchClaim("a", 10, 1)]


def test_a_full_batch_that_a_limit_stops_takes_what_fits_in_the_end(app):
    batches, _ = _batches(app, "a")
    [claim] = _look(batches, 0.0, ("a", 10, 10))
    assert claim == BatchClaim("a", 10, 10)
    batches.claimed(claim, 0)
    assert batches.to_look_at(0.0) == {}
    [claim] = _look(batches, 1.0, ("a", 10, 10))
    assert claim == BatchClaim("a", 10, 10)
    batches.claimed(claim, 0)
    assert _look(batches, 20.0, ("a", 10, 10)) == [BatchClaim("a", 10, 1)]


def test_a_kind_that_was_served_comes_after_the_others(app):
    batches, _ = _batches(app, "a", "b")
    first, second = _look(batches, 0.0, ("a", 10, 1), ("b", 10, 1))
    assert (first.kind, second.kind) == ("a", "b")
    batches.claimed(first, 10)
    assert [claim.kind for claim in _look(batches, 0.0, ("a", 10, 2), ("b", 10, 1))] == ["b", "a"]


def test_a_kind_with_all_its_batches_open_is_not_looked_at(app):
    batches, open_batches = _batches(app, "a", most=1)
    open_batches["a"] = 1
    assert batches.to_look_at(0.0) == {}
    open_batches["a"] = 0
    assert batches.to_look_at(0.0) == {"a": 10}


def test_hints_for_a_batch_kind_cause_few_claims_of_other_kinds():
    singles = SingleClaims()
    claims = 0
    for millisecond in range(1000):
        now = millisecond / 1000
        singles.hint()
        if singles.are_due(now):
            singles.starting()
            singles.claimed(0, now, 1.0)
            claims += 1
    assert claims == pytest.approx(1 / LOOK_SECONDS, abs=2)


def test_a_hint_is_followed_by_a_claim_even_if_the_previous_one_was_empty():
    singles = SingleClaims()
    for _ in range(2):
        singles.hint()
        singles.starting()
        singles.claimed(0, 0.0, 1.0)
    singles.hint()
    assert not singles.are_due(0.0)
    assert singles.pause(1.0, 0.0) == LOOK_SECONDS
    assert singles.are_due(LOOK_SECONDS)


def test_other_kinds_are_polled_however_often_batches_end():
    singles = SingleClaims()
    singles.starting()
    singles.claimed(0, 0.0, 0.5)
    assert singles.pause(1.0, 0.1) == 0.4  # a batch ended, and the worker waits again
    assert singles.pause(1.0, 0.2) == 0.3
    assert not singles.are_due(0.4)
    assert singles.are_due(0.5)


def test_after_a_job_of_another_kind_the_next_one_is_claimed_at_once():
    singles = SingleClaims()
    singles.starting()
    singles.claimed(1, 0.0, 1.0)
    assert singles.are_due(0.0)


async def test_a_job_of_another_kind_runs_while_batches_keep_the_worker_busy(app):
    @app.job(batch=2, batches=1)
    async def embed(jobs: list[posthouse.Job]):
        await embed.enqueue()
        await asyncio.sleep(0)

    @app.job()
    async def other():
        return "done"

    async with running_worker(app, batch_linger_seconds=0.0, keeper=False):
        await embed.enqueue()
        handle = await other.enqueue()
        assert await handle.wait("60s") == "done"
