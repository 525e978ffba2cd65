"""The thin slice: enqueue, claim, run, history."""

import posthouse
from posthouse import testing


async def test_a_job_goes_from_enqueue_to_history(app):
    @app.job()
    async def greet(name: str) -> str:
        return f"hello {name}"

    handle = await greet.enqueue(name="Ada")
    assert await testing.drain(app) == {"succeeded": 1}
    assert await handle.wait("60s") == "hello Ada"


async def test_a_failing_job_is_retried_later_and_then_succeeds(app):
    @app.job(retry=posthouse.Retry("1h"))
    async def flaky(job: posthouse.Job) -> int:
        if job.attempt == 1:
            raise ValueError("not yet")
        return job.attempt

    handle = await flaky.enqueue()
    async with testing.clock(app) as clock:
        assert await testing.drain(app) == {}
        await clock.advance("59m")
        assert await testing.drain(app) == {}
        await clock.advance("2m")
        assert await testing.drain(app) == {"succeeded": 1}
    assert await handle.wait("60s") == 2
