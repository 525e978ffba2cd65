"""Payloads of another version of the code: an old worker passes them on, and renamed kinds run on."""

from datetime import timedelta

import pytest

import posthouse
from posthouse import insights, testing
from posthouse.errors import ConfigurationError
from posthouse.keeper.keeper import Keeper
from posthouse.storage.connections import connect_async
from support.waiting import eventually
from support.workers import attempt_outcomes, job_row, job_status, running_worker


@pytest.fixture
def old(settings):
    app = posthouse.App(settings=settings)

    @app.job(batch=None)
    async def greet(name: str) -> str:
        return name

    @app.job(batch=10)
    async def count(jobs: list[posthouse.Job]) -> None:
        pass

    return app


@pytest.fixture
def new(settings):
    app = posthouse.App(settings=settings)

    @app.job()
    async def greet(name: str, language: str = "en") -> str:
        return f"{name} {language}"

    return app


async def announce(app):
    async with running_worker(app, keeper=False):
        pass


async def why(settings, job_id):
    async with await connect_async(settings.database_url, "test") as connection:
        return await insights.why(connection, job_id)


async def test_an_old_worker_passes_on_a_payload_that_newer_code_accepts(old, new, db, settings):
    async with running_worker(old):
        await announce(new)
        handle = await new.client.enqueue("greet", {"name": "Ada", "language": "fr"})
        await eventually(lambda: attempt_outcomes(db, handle.id) == [(1, "released")], what="the release")
        explained = await why(settings, handle.id)
        assert explained.reason == "no_worker"
        assert "these workers run older code" in explained.summary
        assert explained.until is not None
        fits = await new.client.enqueue("greet", {"name": "Bob"})
        await eventually(lambda: job_status(db, fits.id) == "succeeded", what="a job that fits both")
        assert attempt_outcomes(db, handle.id) == [(1, "released")]
        async with running_worker(new, keeper=False):
            await eventually(lambda: job_status(db, handle.id) == "succeeded", what="the newer worker")
    job = job_row(db, handle.id)
    assert (job["result"], job["attempt_count"], job["crashes"]) == ("Ada fr", 1, 0)
    assert attempt_outcomes(db, handle.id) == [(1, "released"), (1, "succeeded")]
    await new.close()


async def test_a_job_that_no_newer_worker_takes_ends_by_its_deadline(old, new, db, settings):
    async with running_worker(old, keeper=False):
        await announce(new)
        handle = await new.client.enqueue("greet", {"name": "Ada", "language": "fr"})
        await eventually(lambda: attempt_outcomes(db, handle.id) == [(1, "released")], what="the release")
    keeper = Keeper(settings.database_url, settings)
    async with testing.clock(new) as clock:
        await clock.move_to((await why(settings, handle.id)).until)
        db.execute("select posthouse.pause_queue('default')")
        async with running_worker(new, keeper=False):  # it would run the job, but for the pause
            assert await keeper.expirer.run_once() == {"expired": 0}
        db.execute("select posthouse.resume_queue('default')")
        deadline = (await why(settings, handle.id)).until
        await clock.move_to(deadline - timedelta(minutes=1))
        assert await keeper.expirer.run_once() == {"expired": 0}
        await clock.move_to(deadline)
        assert await keeper.expirer.run_once() == {"expired": 1}
    await keeper.stop()
    await new.close()
    job = job_row(db, handle.id)
    assert (job["status"], job["error"]["type"]) == ("dead_letter", "PayloadMismatch")
    assert db.execute("select dead_letter from posthouse.failures").fetchall() == [(1,)]
    assert db.execute("select posthouse.reopen(%s)", (handle.id,)).fetchone() == ("queued",)
    assert job_row(db, handle.id)["requires"] is None, "a retry is offered to all workers"


async def test_a_payload_that_fits_no_definition_is_final(old, new, db):
    async with running_worker(old):
        await announce(new)
        (job_id,) = db.execute("select posthouse.enqueue('greet', '{\"nme\": 1}')").fetchone()
        await eventually(lambda: job_status(db, job_id) == "dead_letter", what="the dead letter")
    assert job_row(db, job_id)["error"]["type"] == "InvalidPayload"
    assert attempt_outcomes(db, job_id) == [(1, "failed")]


async def test_a_payload_is_final_for_the_newest_code(old, new, db):
    """It is the newest definition that refuses it: no other worker will do better."""
    await announce(old)
    async with running_worker(new):
        (job_id,) = db.execute("select posthouse.enqueue('greet', '{\"language\": \"fr\"}')").fetchone()
        await eventually(lambda: job_status(db, job_id) == "dead_letter", what="the dead letter")


async def test_jobs_of_an_earlier_name_run(app, db):
    @app.job(aliases=["hello", "salute"])
    async def greet(name: str) -> str:
        return name

    async with running_worker(app):
        handles = [await app.client.enqueue(kind, {"name": "Ada"}) for kind in ("hello", "salute", "greet")]
        for handle in handles:
            await eventually(lambda handle=handle: job_status(db, handle.id) == "succeeded", what="a job")


def test_an_alias_may_not_be_the_name_of_another_job():
    app = posthouse.App()
    app.job("greet")(lambda: None)
    for aliases in (["greet"], ["other", "other"], ["same"]):
        with pytest.raises(ConfigurationError, match="is defined twice"):
            app.job("same", aliases=aliases)(lambda: None)
