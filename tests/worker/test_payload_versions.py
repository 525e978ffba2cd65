"""Payloads of another version of the code: an old worker passes them on, and renamed kinds run on."""

import pytest

import posthouse
from posthouse import insights
from posthouse.errors import ConfigurationError
from posthouse.storage.connect import connect_async
from workshop import attempts, eventually, row, status, working


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
    async with working(app, keeper=False):
        pass


async def why(settings, job_id):
    async with await connect_async(settings.database_url, "test") as connection:
        return await insights.why(connection, job_id)


async def test_an_old_worker_passes_on_a_payload_that_newer_code_accepts(old, new, db, settings):
    async with working(old):
        await announce(new)
        handle = await new.client.enqueue("greet", {"name": "Ada", "language": "fr"})
        await eventually(lambda: attempts(db, handle.id) == [(1, "released")], what="the release")
        told = await why(settings, handle.id)
        assert told.reason == "no_worker"
        assert "these workers run older code" in told.summary
        fits = await new.client.enqueue("greet", {"name": "Bob"})
        await eventually(lambda: status(db, fits.id) == "succeeded", what="a job that fits both")
        assert attempts(db, handle.id) == [(1, "released")]
        async with working(new, keeper=False):
            await eventually(lambda: status(db, handle.id) == "succeeded", what="the newer worker")
    job = row(db, handle.id)
    assert (job["result"], job["attempt_count"], job["crashes"]) == ("Ada fr", 1, 0)
    assert attempts(db, handle.id) == [(1, "released"), (1, "succeeded")]
    await new.close()


async def test_a_payload_that_fits_no_definition_is_final(old, new, db):
    async with working(old):
        await announce(new)
        (job_id,) = db.execute("select posthouse.enqueue('greet', '{\"nme\": 1}')").fetchone()
        await eventually(lambda: status(db, job_id) == "dead_letter", what="the dead letter")
    assert row(db, job_id)["error"]["type"] == "InvalidPayload"
    assert attempts(db, job_id) == [(1, "failed")]


async def test_a_payload_is_final_for_the_newest_code(old, new, db):
    """It is the newest definition that refuses it: no other worker will do better."""
    await announce(old)
    async with working(new):
        (job_id,) = db.execute("select posthouse.enqueue('greet', '{\"language\": \"fr\"}')").fetchone()
        await eventually(lambda: status(db, job_id) == "dead_letter", what="the dead letter")


async def test_jobs_of_an_earlier_name_run(app, db):
    @app.job(aliases=["hello", "salute"])
    async def greet(name: str) -> str:
        return name

    async with working(app):
        handles = [await app.client.enqueue(kind, {"name": "Ada"}) for kind in ("hello", "salute", "greet")]
        for handle in handles:
            await eventually(lambda handle=handle: status(db, handle.id) == "succeeded", what="a job")


def test_an_alias_may_not_be_the_name_of_another_job():
    app = posthouse.App()
    app.job("greet")(lambda: None)
    for aliases in (["greet"], ["other", "other"], ["same"]):
        with pytest.raises(ConfigurationError, match="is defined twice"):
            app.job("same", aliases=aliases)(lambda: None)
