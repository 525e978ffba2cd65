"""Bulk retries: each job once, at a rate, until too many fail again; even if processes die meanwhile."""

from uuid import uuid4

import psycopg
import pytest

from posthouse import insights, testing
from posthouse.errors import BulkChangeNotFound, InvalidBulkChange
from posthouse.keeper.keeper import Keeper
from posthouse.storage.actions import start_bulk_retry, stop_bulk_change
from support.frozen_clock import FrozenClock
from support.waiting import eventually
from support.workers import running_worker, status_counts


@pytest.fixture
def dead(db):
    """Makes dead jobs: ``dead(5, kind="mail")``."""

    def make(count, kind="work", print_="f" * 16, **options):
        names = "".join(f", {name} => %({name})s" for name in options)
        ids = []
        for _ in range(count):
            [job_id] = db.execute(
                f"select posthouse.enqueue(%(kind)s{names})", {"kind": kind, **options}
            ).fetchone()
            ids.append(job_id)
        _fail(db, kind, count, print_)
        return ids

    return make


def _fail(db, kind, count, print_="f" * 16, event="exhaust"):
    db.execute(
        """
        select posthouse.settle(
          array_agg(id), array_agg(token), array_agg(%s::text), array_agg('failed'::text),
          array_agg(null::float8),
          array_agg(jsonb_build_object('type', 'ValueError', 'message', 'broken', 'fingerprint', %s::text)))
        from posthouse.claim(gen_random_uuid(), gen_random_uuid(),
          array(select distinct queue from posthouse.ready), array[%s], %s, '1 hour')
        """,
        (event, print_, kind, count),
    )


def _succeed(db, kind, count):
    db.execute(
        """
        select posthouse.succeed(array_agg(id), array_agg(token), null)
        from posthouse.claim(gen_random_uuid(), gen_random_uuid(), '{default}', array[%s], %s, '1 hour')
        """,
        (kind, count),
    )


async def start(connection, *, rate=1e6, **options):
    criteria = options.pop("criteria", {"kind": "work"})
    return await start_bulk_retry(connection, criteria, rate=rate, actor="tester", **options)


async def test_every_job_is_retried_once_and_reported(db, keeper, connection, dead):
    ids = dead(120)
    bulk_id = await start(connection)
    await keeper.bulk_changes.run_once()
    bulk = await insights.get_bulk_change(connection, bulk_id)
    assert (bulk.state, bulk.total, bulk.retried) == ("done", 120, 120)
    assert db.execute("select count(*), min(generation) from posthouse.ready").fetchone() == (120, 2)
    _fail(db, "work", 20)
    _succeed(db, "work", 100)
    await keeper.bulk_changes.run_once()
    bulk = await insights.get_bulk_change(connection, bulk_id)
    assert (bulk.succeeded, bulk.failed) == (100, 20)
    retries = db.execute(
        "select target, count(*) from posthouse.audit where action = 'job.retry' group by 1"
    ).fetchall()
    assert dict(retries) == {str(job_id): 1 for job_id in ids}


async def test_jobs_that_fail_again_are_not_retried_again(db, keeper, connection, dead):
    dead(5)
    await start(connection, stop_share=1.0)
    await keeper.bulk_changes.run_once()
    _fail(db, "work", 5)
    assert await keeper.bulk_changes.run_once() == {"retried": 0, "canceled": 0, "skipped": 0}
    assert status_counts(db) == {"dead_letter": 5}


@pytest.mark.parametrize(
    ("criteria", "found"),
    [
        ({"kind": "work"}, {"a", "b", "c"}),
        ({"fingerprint": "a" * 16}, {"a"}),
        ({"queue": "mail"}, {"b"}),
        ({"tenant": "acme"}, {"c"}),
        ({"kind": "work", "limit": 1}, {"a"}),
        ({"kind": "other"}, set()),
    ],
)
async def test_a_filter_chooses_the_jobs(db, keeper, connection, dead, criteria, found):  # noqa: PLR0917
    names = {
        dead(1, print_="a" * 16)[0]: "a",
        dead(1, print_="b" * 16, queue="mail")[0]: "b",
        dead(1, print_="c" * 16, tenant_id="acme")[0]: "c",
    }
    assert await insights.count_retriable(connection, criteria) == len(found)
    await start(connection, criteria=criteria)
    await keeper.bulk_changes.run_once()
    queued = db.execute("select id from posthouse.jobs where status = 'queued'").fetchall()
    assert {names[job_id] for (job_id,) in queued} == found


async def test_it_halts_when_too_many_fail_again(db, keeper, connection, dead):
    dead(100)
    clock = FrozenClock(db)
    bulk_id = await start(connection, rate=10, stop_share=0.5, stop_after=10)
    for _ in range(10):
        await keeper.bulk_changes.run_once()
        _fail(db, "work", 100)
        clock.advance(1)
    bulk = await insights.get_bulk_change(connection, bulk_id)
    assert bulk.state == "halted"
    assert bulk.failed >= 10
    assert bulk.retried < 40  # as many as were on their way when it was known
    assert bulk.reason == f"{bulk.failed} of {bulk.failed} failed again"
    [(after,)] = db.execute(
        "select after from posthouse.audit where action = 'failures.retry.halted'"
    ).fetchall()
    assert after["failed"] == bulk.failed


async def test_one_attempt_that_fails_is_enough_to_count_and_a_success_takes_it_back(
    db, keeper, connection, dead
):
    dead(2, max_attempts=2)
    bulk_id = await start(connection)
    await keeper.bulk_changes.run_once()
    _fail(db, "work", 2, event="retry")
    await keeper.bulk_changes.run_once()
    assert (await insights.get_bulk_change(connection, bulk_id)).failed == 2
    db.execute("select posthouse.promote()")
    _succeed(db, "work", 2)
    await keeper.bulk_changes.run_once()
    bulk = await insights.get_bulk_change(connection, bulk_id)
    assert (bulk.succeeded, bulk.failed) == (2, 0)


async def test_it_goes_on_when_few_fail_again(app, db, keeper, connection, dead):
    dead(40)
    bulk_id = await start(connection, rate=10, stop_share=0.5, stop_after=5)
    async with testing.clock(app) as clock:
        for _ in range(8):
            await keeper.bulk_changes.run_once()
            _fail(db, "work", 1)
            _succeed(db, "work", 40)
            await clock.advance("1s")
    bulk = await insights.get_bulk_change(connection, bulk_id)
    assert (bulk.state, bulk.retried) == ("done", 40)


async def test_the_rate_is_kept_by_the_databases_clock(app, db, keeper, connection, dead):
    """With three keepers, at odd moments: never more than the time allows, a second's worth at most."""
    dead(60)
    clock = FrozenClock(db)
    bulk_id = await start(connection, rate=5)
    others = [Keeper(app.settings.database_url, app.settings) for _ in range(2)]
    passed, last = 0.0, 0
    for seconds in (0, 0.3, 0.5, 0.1, 1.0, 0.7, 5.0, 0.2, 1.2):
        clock.advance(seconds)
        passed += seconds
        for each in (keeper, *others):
            await each.bulk_changes.run_once()
        retried = (await insights.get_bulk_change(connection, bulk_id)).retried
        assert retried <= 1 + 5 * passed
        assert retried - last <= 5 + 1  # a second's worth
        last = retried
    assert 15 <= last < 60
    for each in others:
        await each.stop()


async def test_a_keeper_that_dies_in_the_middle_of_a_step_loses_and_doubles_nothing(
    database, db, keeper, connection, dead
):
    ids = dead(30)
    bulk_id = await start(connection)
    for most in (7, 7, 7):  # it dies before its commit, each time
        with psycopg.connect(database) as dying:
            dying.execute("select posthouse.advance_bulk_change(%s)", (most,))
            dying.rollback()
    assert (await insights.get_bulk_change(connection, bulk_id)).retried == 0
    with psycopg.connect(database) as busy:
        busy.execute("select posthouse.advance_bulk_change(7)")  # it gathers
        busy.commit()
        busy.execute("select posthouse.advance_bulk_change(7)")  # and holds the next step
        assert await keeper.bulk_changes.run_once() == {"retried": 0, "canceled": 0, "skipped": 0}
    await keeper.bulk_changes.run_once()
    assert {job_id for (job_id,) in db.execute("select id from posthouse.ready").fetchall()} == set(ids)
    assert db.execute("select count(*) from posthouse.audit where action = 'job.retry'").fetchone() == (30,)


async def test_a_job_that_cannot_be_retried_is_skipped_with_the_reason(db, keeper, connection, dead):
    dead(1, dedupe_key="key")
    db.execute("select posthouse.enqueue('other', dedupe_key => 'key')")
    dead(1)
    bulk_id = await start(connection)
    await keeper.bulk_changes.run_once()
    bulk = await insights.get_bulk_change(connection, bulk_id)
    assert (bulk.state, bulk.retried, bulk.skipped) == ("done", 1, 1)
    assert db.execute("select reason from posthouse.bulk_change_jobs where state = 'skipped'").fetchall() == [
        ("its dedupe key is taken",)
    ]
    assert status_counts(db)["queued"] == 2


async def test_jobs_with_keys_are_retried_in_transactions_of_their_own(db, dead, connection):
    """Two who enqueue with these keys in turn would otherwise wait for us, and we for them."""
    dead(2)
    for number in range(3):
        dead(1, dedupe_key=f"key {number}")
    dead(2)
    await start(connection)
    db.execute("select posthouse.advance_bulk_change()")
    taken = [db.execute("select retried from posthouse.advance_bulk_change()").fetchone() for _ in range(5)]
    assert taken == [(2,), (1,), (1,), (1,), (2,)]


async def test_one_that_is_stopped_retries_no_more(db, keeper, connection, dead):
    dead(20)
    bulk_id = await start(connection, rate=1)
    await keeper.bulk_changes.run_once()
    assert await stop_bulk_change(connection, bulk_id, actor="tester")
    assert not await stop_bulk_change(connection, bulk_id, actor="tester")
    retried = (await insights.get_bulk_change(connection, bulk_id)).retried
    db.execute("update posthouse.bulk_changes set credit = 100")
    assert await keeper.bulk_changes.run_once() == {"retried": 0, "canceled": 0, "skipped": 0}
    bulk = await insights.get_bulk_change(connection, bulk_id)
    assert (bulk.state, bulk.retried, bulk.reason) == ("stopped", retried, "stopped by tester")
    actions = db.execute(
        "select action from posthouse.audit where target = %s order by id", (str(bulk_id),)
    ).fetchall()
    assert actions == [("failures.retry",), ("failures.retry.stopped",)]


async def test_what_cannot_be_meant_is_refused(connection):
    for criteria, options in (
        ({}, {}), ({"limit": 5}, {}), ({"kind": "k"}, {"rate": 0}), ({"kind": "k"}, {"stop_share": 2}),
        ({"kind": "k"}, {"stop_after": 0}),
    ):  # fmt: skip
        with pytest.raises(InvalidBulkChange):
            await start(connection, criteria=criteria, **options)
    with pytest.raises(BulkChangeNotFound):
        await stop_bulk_change(connection, uuid4(), actor="tester")


async def test_with_a_keeper_and_a_worker_a_mended_handler_gets_all_jobs_done(app, db, connection):
    broken = True

    @app.job(max_attempts=1)
    async def charge(order: int) -> None:
        if broken:
            raise ValueError(f"order {order} was declined")

    for number in range(50):
        await charge.enqueue(order=number)
    await testing.drain(app)
    broken = False
    [group] = await insights.list_failure_groups(connection)
    bulk_id = await start_bulk_retry(connection, {"fingerprint": group.fingerprint}, rate=500, actor="tester")
    async with running_worker(app):
        await eventually(lambda: status_counts(db) == {"succeeded": 50}, what="all jobs being done")
        await eventually(
            lambda: (
                db.execute(
                    "select succeeded from posthouse.bulk_changes where id = %s", (bulk_id,)
                ).fetchone()
                == (50,)
            ),
            what="the bulk retry hearing of it",
        )
