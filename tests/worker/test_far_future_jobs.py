"""Jobs that are due in the far future stay in the database."""

from posthouse import testing
from support.workers import running_worker, status_counts


async def test_far_future_jobs_take_no_slot_and_no_attempt(app, db):
    @app.job()
    async def work() -> str:
        return "done"

    later = [work.request({}, {"delay": "300d", "priority": "urgent"}) for _ in range(1_000)]
    await app.client.enqueue_many(later)
    async with running_worker(app, concurrency=1):
        for _ in range(3):
            assert await (await work.enqueue()).wait("60s") == "done"
        assert status_counts(db) == {"queued": 1_000, "succeeded": 3}
        assert db.execute("select max(attempt_count) from posthouse.waiting").fetchone() == (0,)
    async with testing.clock(app) as clock:
        await clock.advance("301d")
        assert await testing.drain(app) == {"succeeded": 1_000}
