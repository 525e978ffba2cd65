"""A reader of old jobs delays retention, but no other session."""

import asyncio
import dataclasses

import psycopg

from posthouse import testing
from posthouse.keeper.keeper import Keeper
from support.waiting import eventually
from support.workers import running_worker, status_counts


def test_a_reader_of_an_old_day_keeps_that_table_and_no_other(engine):
    job = engine.start()
    engine.retry(job)
    engine.succeed(engine.claim_one())
    engine.on(40)
    with engine.new_connection(autocommit=False) as reader:
        reader.rows("select * from posthouse.history")
        gone = engine.run_retention(default=30)
        assert engine.let_go_counts["busy"] == 1
        assert not [name for name in gone if name.startswith("history")]
        assert [name for name in gone if name.startswith("past_attempts")]
        with engine.new_connection() as worker:
            assert worker.succeed(worker.start()) == []
    engine.run_retention(default=30)
    assert engine.there(job.id) == []


async def test_a_worker_goes_on_while_retention_cannot_lock_what_it_drops(app, db, settings):
    """A reader sits on the old partition, another on the whole history; jobs are finished all the while."""

    @app.job()
    async def work() -> None:
        pass

    await work.enqueue()
    await testing.drain(app)
    keeper = Keeper(settings.database_url, dataclasses.replace(settings, retention_days=1))
    async with testing.clock(app) as clock, running_worker(app, keeper=False):
        await clock.advance("3d")
        await keeper.retention.run_once()
        assert status_counts(db) == {}, "no reader was in the way"
        await work.enqueue()
        await eventually(lambda: status_counts(db) == {"succeeded": 1})
        await clock.advance("3d")
        (part,) = db.execute("select tableoid::regclass::text from posthouse.history").fetchone()
        for held in ("posthouse.history", part):
            with psycopg.connect(settings.database_url) as reader:
                reader.execute(f"select count(*) from {held}")
                round_ = asyncio.create_task(keeper.retention.run_once())
                handles = []
                while not round_.done():
                    handles.append(await work.enqueue())
                    await asyncio.wait_for(handles[-1].wait(), 20)
                counts = await round_
                assert counts["busy"] >= 1
                assert handles
        counts = await keeper.retention.run_once()
        assert counts["dropped"] >= 1
        await keeper.stop()
    assert set(status_counts(db)) == {"succeeded"}
