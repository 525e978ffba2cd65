"""Failure groups: counted exactly, even if workers and keepers die meanwhile."""

import random
import threading

import psycopg
import pytest

import posthouse
from posthouse import insights, testing
from posthouse.core.failure import fingerprint
from posthouse.storage.queries import query
from support.engine import Engine, run_concurrently
from support.waiting import eventually
from support.workers import running_worker

TOTALS = """
select sum(failures) as failures, sum(dead_letter) as dead_letter, sum(failed) as failed,
       sum(canceled) as canceled
from posthouse.failures
"""


def error(message="broken", print_="f" * 16):
    return {"type": "ValueError", "message": message, "fingerprint": print_}


async def test_attempts_that_fail_in_the_same_way_are_one_group(app, keeper, connection):
    @app.job(max_attempts=2, retry=posthouse.Retry("0s"))
    async def charge(order: int) -> None:
        if order < 3:
            raise ValueError(f"order {order} was declined")
        raise KeyError(order)

    for order in range(5):
        await charge.enqueue(order=order)
    await testing.drain(app)
    declined, unknown = sorted(
        await insights.list_failure_groups(connection), key=lambda group: -group.failures
    )
    assert (declined.type, declined.failures, declined.dead_letter, declined.failed) == (
        "ValueError",
        6,
        3,
        0,
    )
    assert (unknown.type, unknown.failures, unknown.dead_letter) == ("KeyError", 4, 2)
    assert declined.message.startswith("order")
    assert sum(declined.last_hour) == 6
    await keeper.grouper.run_once()
    assert sorted(await insights.list_failure_groups(connection), key=lambda group: -group.failures) == [
        declined, unknown,
    ]  # fmt: skip


async def test_a_group_shows_the_latest_error_and_the_jobs_that_ended_with_it(app, connection):
    @app.job(max_attempts=1)
    async def charge(order: int) -> None:
        raise ValueError(f"order {order} was declined")

    ids = {(await charge.enqueue(order=order)).id for order in range(3)}
    await testing.drain(app)
    [group] = await insights.list_failure_groups(connection)
    detail = await insights.get_failure(connection, group.fingerprint[:5])
    assert {job.id for job in detail.jobs} == ids
    assert "in charge" in detail.error["traceback"]
    assert detail.error["location"].endswith("charge")


async def test_a_secret_changes_neither_the_group_nor_shows_in_it(app, connection):
    @app.job(max_attempts=1, redact=["card"])
    async def charge(card: str) -> None:
        raise ValueError(f"declined: {card}")

    for card in ("4711-hunter-zwei", "0815-swordfish-x"):
        await charge.enqueue(card=card)
    await testing.drain(app)
    [group] = await insights.list_failure_groups(connection)
    assert group.failures == 2
    assert not {"hunter", "swordfish"} & set(group.message.replace("-", " ").split())


def test_what_does_not_fail_is_not_counted(engine):
    engine.succeed(engine.start())
    engine.settle(engine.start(), "snooze", "snoozed", 1.0)
    engine.settle(engine.start(), "release", "released", 0.0)
    engine.settle(engine.start(), "cancel", "canceled", error={"type": "Canceled", "message": "by me"})
    job = engine.start()
    engine.cancel(job.id)
    engine.settle(job, "fail", error=error())  # its end was asked for: that it failed is no news
    engine.cancel(engine.enqueue())
    assert engine.count("failure_deltas") == 0


def test_a_report_that_is_repeated_counts_once(engine):
    job = engine.start()
    for _ in range(3):
        engine.settle(job, "fail", error=error())
    assert engine.row(TOTALS) == (1, 0, 1, 0)


def test_a_lost_job_and_one_whose_dependency_failed_have_groups_by_type(engine):
    lost = engine.start(max_attempts=1)
    engine.enqueue(depends_on=[lost.id], kind="after")
    engine.rescue([engine.register(lost.worker_id)])
    groups = {row.type: row for row in engine.rows("select * from posthouse.failures")}
    assert (groups["WorkerLost"].dead_letter, groups["DependencyFailed"].canceled) == (1, 1)
    for type_, group in groups.items():
        assert group.fingerprint == fingerprint({"type": type_, "message": "any text"})


def test_a_failed_job_that_is_retried_and_fails_again_counts_twice(engine):
    job = engine.start()
    engine.fail(job)
    engine.reopen(job.id)
    engine.fail(engine.claim_one())
    assert engine.row(TOTALS) == (2, 0, 2, 0)


def test_a_batch_appends_one_row_for_each_fault(engine):
    for _ in range(20):
        engine.enqueue()
    engine.settle_many(engine.claim(20), "fail", error=error())
    assert engine.row("select failures, failed from posthouse.failure_deltas") == (20, 20)


class Storm:
    """Four keep failing jobs, four group; each of them dies before its commit now and then."""

    def __init__(self, url, seed):
        self._url = url
        self._random = random.Random(seed)
        self._over = threading.Event()
        self.failed = [0] * 4

    def fail(self, index):
        with psycopg.connect(self._url, autocommit=True) as connection:
            engine = Engine(connection, self._url)
            for _ in range(15):
                for number in range(5):
                    engine.enqueue(kind=f"k{number % 2}", tenant_id=f"t{index % 2}")
                jobs = engine.claim(5, kinds=["k0", "k1"])
                print_ = f"{self._random.randrange(3):016}"
                with connection.transaction(force_rollback=self._random.random() < 0.3) as transaction:
                    engine.settle_many(jobs, "exhaust", error=error(print_=print_))
                self.failed[index] += 0 if transaction.force_rollback else len(jobs)

    def group(self):
        while not self._over.is_set():
            with psycopg.connect(self._url) as connection:
                connection.execute("select posthouse.group_failures(%s)", (self._random.randrange(1, 9),))
                if self._random.random() < 0.5:
                    connection.rollback()

    def run(self):
        grouping = [threading.Thread(target=self.group) for _ in range(4)]
        for thread in grouping:
            thread.start()
        run_concurrently(*(lambda index=index: self.fail(index) for index in range(4)))
        self._over.set()
        for thread in grouping:
            thread.join()


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_exact_with_several_groupers_and_kills(database, db, seed):
    storm = Storm(database, seed)
    storm.run()
    failed = sum(storm.failed)
    assert db.execute(TOTALS).fetchone()[:2] == (failed, failed)
    while db.execute("select posthouse.group_failures()").fetchone() != (0,):
        pass
    for table in ("failures", "failure_groups", "failure_counts"):
        assert db.execute(f"select sum(failures) from posthouse.{table}").fetchone() == (failed,)


async def test_groups_live_as_long_as_the_jobs_they_are_about(app, db, keeper, connection):
    @app.job(max_attempts=1)
    async def charge() -> None:
        raise ValueError("declined")

    await charge.enqueue()
    await testing.drain(app)
    await keeper.grouper.run_once()
    async with testing.clock(app) as clock:
        await clock.advance("31d")
        later = type(keeper.grouper)(keeper.grouper._connection, app.settings)  # a keeper that starts later
        assert await later.run_once() == {"moved": 0, "deleted": 1}
    assert await insights.list_failure_groups(connection) == []


def test_a_group_of_millions_is_found_by_an_index(engine):
    """The dead jobs of one group among 20,000 others: as many are read as are shown."""
    engine.connection.execute("""
        insert into posthouse.history (
          id, queued_at, scheduled_for, priority, max_attempts, generation, crashes, snoozes, attempt_count,
          tenant_id, kind, queue, source, payload, finished_at, status, outcome, error)
        select gen_random_uuid(), now(), now(), 100, 3, 1, 0, 0, 3, 'default', 'k', 'default', 'manual', '{}',
               now() - n * interval '1 s', 'dead_letter', 'failed',
               jsonb_build_object('fingerprint', n % 1000)
        from generate_series(1, 20000) as n;
        analyze posthouse.history""")
    parameters = {"fingerprint": "7", "kind": "k", "tenant": "default", "limit": 10}
    with engine.connection.cursor() as cursor:
        [(plan,)] = cursor.execute(
            "explain (analyze, format json) " + query("failure_jobs"), parameters
        ).fetchall()
    assert _rows_read(plan[0]["Plan"]) <= 20


def _rows_read(node):
    """Of tables, with those that were thrown away."""
    own = 0
    if "Relation Name" in node:
        own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return own + sum(_rows_read(child) for child in node.get("Plans", ()))


async def test_the_keeper_groups_by_itself(app, settings, db):
    @app.job(max_attempts=1)
    async def charge() -> None:
        raise ValueError("declined")

    await charge.enqueue()
    await testing.drain(app)
    async with running_worker(app):
        await eventually(
            lambda: db.execute("select failures from posthouse.failure_groups").fetchall() == [(1,)],
            what="the group",
        )
