"""Handlers that take many jobs at once and answer for each."""

import asyncio
from dataclasses import dataclass

import pytest

import posthouse
from posthouse import testing
from posthouse.errors import ConfigurationError, InvalidPayload
from support.waiting import eventually
from support.workers import attempt_outcomes, cancel, job_row, job_status, running_worker


async def _enqueue(app, job_type, count):
    requests = [job_type.request({"number": number}) for number in range(count)]
    return await app.client.enqueue_many(requests)


async def test_a_batch_is_never_larger_than_its_size(app):
    sizes = []

    @app.job(batch=50)
    async def embed(jobs: list[posthouse.Job]):
        sizes.append(len(jobs))

    await _enqueue(app, embed, 120)
    assert await testing.drain(app) == {"succeeded": 120}
    assert sum(sizes) == 120
    assert max(sizes) == 50


async def test_answers_go_to_their_jobs(app):
    @app.job(batch=10)
    async def double(jobs: list[posthouse.Job]):
        return [2 * job.payload["number"] for job in jobs]

    handles = await _enqueue(app, double, 25)
    assert await testing.drain(app) == {"succeeded": 25}
    assert [await handle.wait("60s") for handle in handles] == [2 * number for number in range(25)]


async def test_a_batch_in_a_thread(app):
    @app.job(batch=10)
    def double(jobs: list[posthouse.Job]):
        return [2 * job.payload["number"] for job in jobs]

    handles = await _enqueue(app, double, 3)
    assert await testing.drain(app) == {"succeeded": 3}
    assert [await handle.wait("60s") for handle in handles] == [0, 2, 4]


async def test_each_job_of_a_batch_ends_as_its_answer_says(app, db):
    answers = [
        "fine",
        None,
        ValueError("try again"),
        posthouse.Fail("never"),
        posthouse.Cancel("not needed"),
        posthouse.Snooze("1h"),
    ]

    @app.job(batch=10)
    async def mixed(jobs: list[posthouse.Job]):
        return [answers[job.payload["number"]] for job in jobs]

    handles = await _enqueue(app, mixed, len(answers))
    assert await testing.drain(app) == {"succeeded": 2, "failed": 1, "canceled": 1}
    assert [job_status(db, handle.id) for handle in handles] == [
        "succeeded", "succeeded", "queued", "failed", "canceled", "queued",
    ]  # fmt: skip
    assert job_row(db, handles[2].id)["attempt_count"] == 1
    assert job_row(db, handles[5].id)["attempt_count"] == 0


async def test_an_error_of_the_handler_is_the_error_of_every_job_in_the_batch(app, db):
    @app.job(batch=10, max_attempts=1)
    async def fall(jobs: list[posthouse.Job]):
        raise ValueError("all of you")

    handles = await _enqueue(app, fall, 3)
    assert await testing.drain(app) == {"dead_letter": 3}
    assert {job_row(db, handle.id)["error"]["message"] for handle in handles} == {"all of you"}


@pytest.mark.parametrize("answered", [2, 4])
async def test_a_wrong_number_of_answers_fails_all_of_them(app, db, answered):
    @app.job(batch=10, max_attempts=1)
    async def miscount(jobs: list[posthouse.Job]):
        return list(range(answered))

    handles = await _enqueue(app, miscount, 3)
    assert await testing.drain(app) == {"dead_letter": 3}
    assert (
        f"received 3 jobs but returned {answered} results" in job_row(db, handles[0].id)["error"]["message"]
    )


async def test_canceling_one_job_leaves_the_rest_of_its_batch_alone(app, db):
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job(batch=10)
    async def work(jobs: list[posthouse.Job]):
        started.set()
        await go_on.wait()
        return [job.canceled for job in jobs]

    handles = await _enqueue(app, work, 3)
    async with running_worker(app) as worker:
        await asyncio.wait_for(started.wait(), 20)
        assert cancel(db, handles[1].id) == "canceling"
        await eventually(lambda: job_status(db, handles[1].id) == "canceled")
        go_on.set()
        await eventually(lambda: job_status(db, handles[2].id) == "succeeded")
        await eventually(lambda: not worker.executor.leased)
    assert [job_status(db, handle.id) for handle in handles] == ["succeeded", "canceled", "succeeded"]
    assert attempt_outcomes(db, handles[1].id) == [(1, "canceled")]


async def test_canceling_all_jobs_of_a_batch_cancels_its_handler(app, db):
    started, canceled = asyncio.Event(), asyncio.Event()

    @app.job(batch=10)
    async def work(jobs: list[posthouse.Job]):
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            canceled.set()
            raise

    handles = await _enqueue(app, work, 2)
    async with running_worker(app):
        await asyncio.wait_for(started.wait(), 20)
        for handle in handles:
            cancel(db, handle.id)
        await asyncio.wait_for(canceled.wait(), 20)
        await eventually(lambda: {job_status(db, handle.id) for handle in handles} == {"canceled"})


async def test_a_batch_that_runs_too_long_times_out_as_a_whole(app, db):
    @app.job(batch=10, timeout="100ms", max_attempts=1)
    async def slow(jobs: list[posthouse.Job]):
        await asyncio.sleep(3600)

    handles = await _enqueue(app, slow, 3)
    assert await testing.drain(app) == {"dead_letter": 3}
    assert attempt_outcomes(db, handles[0].id) == [(1, "timeout")]


def test_a_batch_handler_takes_the_list_of_jobs_only(settings):
    app = posthouse.App(settings=settings)
    with pytest.raises(ConfigurationError, match="must take one argument"):

        @app.job(batch=5)
        async def wrong(jobs: list[posthouse.Job], other: int):
            pass


@dataclass
class Letter:
    address: str
    pages: int = 1


async def test_payloads_of_a_batch_are_checked_and_one_that_does_not_fit_ends_alone(app, db):
    @app.job(batch=10, takes=Letter)
    async def send(jobs: list[posthouse.Job]):
        return [job.payload["address"] for job in jobs]

    with pytest.raises(InvalidPayload, match="address: Field required"):
        await send.enqueue(pages=2)
    good = await send.enqueue(address="Ada", pages=2)
    db.execute("select posthouse.enqueue('send', '{\"pages\": \"many\"}')")
    assert await testing.drain(app) == {"succeeded": 1, "dead_letter": 1}
    assert await good.wait("60s") == "Ada"
    assert "address" in send.definition.arguments.schema()["properties"]


def test_only_batches_say_what_they_take(app):
    with pytest.raises(ConfigurationError, match="takes is only for batch handlers"):
        app.job(takes=Letter)(lambda job: None)
