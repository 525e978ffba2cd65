"""Jobs that wait for jobs."""

from uuid import uuid4

import psycopg
import pytest

from support.engine import HOUR, run_concurrently
from support.waiting import eventually_sync


def edges(engine):
    return engine.count("job_dependencies")


def names(engine, order):
    return [engine.job(job_id).subject for job_id in order]


def sweep(engine, cursor=None):
    """What the keeper does: look again at edges since the last look."""
    if cursor is None:
        return engine.value("select posthouse.recheck_dependencies()::text")
    return engine.value("select posthouse.recheck_dependencies(%s::xid8[])::text", cursor)


def test_a_chain_runs_in_order(engine):
    previous, ids = [], []
    for _ in range(5):
        previous = [engine.enqueue(depends_on=previous)]
        ids += previous
    assert [engine.table_of(job_id) for job_id in ids] == ["ready", *["waiting"] * 4]
    assert engine.run_all() == ids
    assert edges(engine) == 0


def test_a_job_waits_for_all_that_it_depends_on(engine):
    parts = [engine.enqueue("part") for _ in range(3)]
    whole = engine.enqueue(depends_on=parts)
    for left in (3, 2, 1):
        assert engine.job(whole).blockers == left
        assert engine.claim() == []
        engine.succeed(engine.claim_one(kinds=["part"]))
    assert engine.claim_one().id == whole


def test_a_diamond_joins_once(engine):
    top = engine.enqueue(subject="top")
    sides = [engine.enqueue(subject=name, depends_on=[top]) for name in ("left", "right")]
    engine.enqueue(subject="bottom", depends_on=[*sides, top])
    assert names(engine, engine.run_all()) == ["top", "left", "right", "bottom"]


def test_both_sides_of_a_diamond_may_end_in_one_batch(engine):
    sides = [engine.enqueue("side") for _ in range(2)]
    bottom = engine.enqueue(depends_on=sides)
    engine.succeed(*engine.claim(2, kinds=["side"]))
    assert engine.claim_one().id == bottom


def test_both_sides_of_a_diamond_may_end_at_once(engine):
    for _ in range(20):
        sides = [engine.enqueue("side") for _ in range(4)]
        bottom = engine.enqueue(depends_on=sides)

        def finish(job):
            with engine.new_connection() as other:
                assert other.succeed(job) == []

        run_concurrently(*[lambda job=job: finish(job) for job in engine.claim(4, kinds=["side"])])
        job = engine.claim_one()
        assert job.id == bottom
        engine.succeed(job)


def test_a_dependency_named_twice_counts_once(engine):
    first = engine.enqueue("part")
    second = engine.enqueue(depends_on=[first, first])
    engine.succeed(engine.claim_one(kinds=["part"]))
    assert engine.claim_one().id == second


def test_a_job_that_is_also_due_later_waits_for_both(engine):
    first = engine.enqueue("part")
    second = engine.enqueue(depends_on=[first], delay=HOUR)
    engine.succeed(engine.claim_one(kinds=["part"]))
    engine.promote()
    assert engine.claim() == []
    engine.advance(HOUR + 1)
    engine.promote()
    assert engine.claim_one().id == second


def test_a_retry_of_the_dependency_does_not_free_the_dependant(engine):
    engine.enqueue(depends_on=[engine.enqueue("part")])
    engine.retry(engine.claim_one(kinds=["part"]))
    assert engine.claim() == []
    engine.succeed(engine.claim_one(kinds=["part"]))
    assert len(engine.claim()) == 1


FAILURES = {
    "failed": lambda engine, job: engine.fail(job),
    "dead_letter": lambda engine, job: engine.settle(job, "exhaust"),
    "canceled": lambda engine, job: engine.settle(job, "cancel"),
}


@pytest.mark.parametrize("status", FAILURES)
@pytest.mark.parametrize(("policy", "then"), [("cancel", "canceled"), ("run", "ready"), ("wait", "waiting")])
def test_what_becomes_of_a_job_whose_dependency_failed_is_its_choice(engine, status, policy, then):
    dependency = engine.start("part")
    job_id = engine.enqueue(depends_on=[dependency.id], on_dependency_failure=policy)
    FAILURES[status](engine, dependency)
    assert engine.status(dependency.id) == status
    assert then in {engine.status(job_id), engine.table_of(job_id)}
    if policy == "cancel":
        assert engine.job(job_id).error["type"] == "DependencyFailed"


@pytest.mark.parametrize("status", [*FAILURES, "succeeded"])
@pytest.mark.parametrize(("policy", "then"), [("cancel", "canceled"), ("run", "ready"), ("wait", "waiting")])
def test_the_same_holds_if_the_dependency_had_ended_before(engine, status, policy, then):
    dependency = engine.start("part")
    FAILURES.get(status, lambda engine, job: engine.succeed(job))(engine, dependency)
    job_id = engine.enqueue(depends_on=[dependency.id], on_dependency_failure=policy, dedupe_key="k")
    if status == "succeeded":
        then = "ready"
    assert then in {engine.status(job_id), engine.table_of(job_id)}
    assert engine.count("dedupe_keys") == (0 if then == "canceled" else 1)


def test_a_job_that_waits_past_a_failure_runs_when_a_person_mends_it(engine):
    dependency = engine.start("part")
    job_id = engine.enqueue(depends_on=[dependency.id], on_dependency_failure="wait")
    engine.fail(dependency)
    sweep(engine)
    assert engine.table_of(job_id) == "waiting"
    engine.reopen(dependency.id)
    engine.succeed(engine.claim_one(kinds=["part"]))
    assert engine.claim_one().id == job_id


def test_a_cancellation_runs_down_the_tree(engine):
    root = engine.enqueue()
    children = [engine.enqueue(depends_on=[root]) for _ in range(3)]
    grandchildren = [engine.enqueue(depends_on=[child]) for child in children]
    last = engine.enqueue(depends_on=grandchildren)
    survivor = engine.enqueue(depends_on=[last], on_dependency_failure="run")
    assert engine.cancel(root) == "canceled"
    assert {engine.status(job_id) for job_id in [*children, *grandchildren, last]} == {"canceled"}
    assert engine.claim_one().id == survivor
    assert edges(engine) == 0


def test_a_cancellation_runs_down_a_chain_of_any_length(engine):
    ids = [uuid4() for _ in range(1_000)]
    engine.enqueue_many(
        *(
            {"kind": "task", "id": job_id, "depends_on": [ids[n - 1]] if n else []}
            for n, job_id in enumerate(ids)
        )
    )
    job = engine.claim_one()
    assert engine.fail(job) == []
    assert engine.value("select count(*) from posthouse.history where status = 'canceled'") == 999
    assert engine.count("waiting") == 0
    assert edges(engine) == 0


def test_an_unknown_dependency_is_refused_and_nothing_is_stored(engine):
    before = engine.dump_tables()
    with pytest.raises(psycopg.Error) as caught:
        engine.enqueue_many(
            {"kind": "task"}, {"kind": "task", "dedupe_key": "k", "depends_on": [str(uuid4())]}
        )
    assert caught.value.sqlstate == "PH002"
    assert "does not exist" in str(caught.value)
    assert engine.dump_tables() == before


def test_a_dependency_may_stand_in_the_same_call(engine):
    first, second, third = uuid4(), uuid4(), uuid4()
    engine.enqueue_many(
        {"kind": "task", "id": second, "depends_on": [first]},
        {"kind": "task", "id": third, "depends_on": [second, first]},
        {"kind": "task", "id": first},
    )
    assert engine.run_all() == [first, second, third]


def test_depending_on_a_duplicate_is_depending_on_the_job_that_stands_for_it(engine):
    holder = engine.enqueue("part", dedupe_key="k")
    duplicate, dependant = uuid4(), uuid4()
    answers = engine.enqueue_many(
        {"kind": "part", "id": duplicate, "dedupe_key": "k"},
        {"kind": "task", "id": dependant, "depends_on": [duplicate]},
    )
    assert answers == [(holder, "existing"), (dependant, "created")]
    assert engine.claim() == []
    engine.succeed(engine.claim_one(kinds=["part"]))
    assert engine.claim_one().id == dependant


@pytest.mark.parametrize("ending", ["succeed", "fail"])
def test_a_dependency_that_ends_while_the_edge_is_uncommitted_is_found_by_the_keeper(engine, ending):
    dependency = engine.start("part")
    cursor = sweep(engine)
    with engine.new_connection(autocommit=False) as caller:
        job_id = caller.enqueue(depends_on=[dependency.id])
        getattr(engine, ending)(dependency)
        cursor = sweep(engine, cursor)
        caller.commit()
    assert engine.table_of(job_id) == "waiting"
    sweep(engine, cursor)
    assert engine.table_of(job_id) == ("ready" if ending == "succeed" else "history")


def test_a_dependency_that_ends_late_in_a_long_transaction_is_found_by_the_keeper(engine):
    """The edge is committed, and looked at, while the end of its dependency is still uncommitted."""
    dependency = engine.start("part")
    cursor = sweep(engine)
    with (
        engine.new_connection(autocommit=False) as caller,
        engine.new_connection(autocommit=False) as finisher,
    ):
        job_id = caller.enqueue(depends_on=[dependency.id])
        finisher.succeed(dependency)
        caller.commit()
        for _ in range(3):
            cursor = sweep(engine, cursor)
        assert engine.table_of(job_id) == "waiting"
        finisher.commit()
    sweep(engine, cursor)
    assert engine.table_of(job_id) == "ready"


def test_a_look_within_a_transaction_that_has_written_forgets_no_edge(engine):
    dependency = engine.start("part")
    with (
        engine.new_connection(autocommit=False) as caller,
        engine.new_connection(autocommit=False) as finisher,
    ):
        job_id = caller.enqueue(depends_on=[dependency.id])
        with engine.new_connection(autocommit=False) as keeper:
            keeper.enqueue("other")
            finisher.succeed(dependency)
            caller.commit()
            cursor = sweep(keeper)
            for _ in range(3):
                cursor = sweep(keeper, cursor)
        finisher.commit()
    sweep(engine, cursor)
    assert engine.table_of(job_id) == "ready"


def advanced(engine):
    """A cursor that is past all edges that are there."""
    cursor = sweep(engine)

    def moved_on():
        nonlocal cursor
        cursor = sweep(engine, cursor)
        return engine.value("select max(xid) < (%s::xid8[])[1] from posthouse.job_dependencies", cursor)

    eventually_sync(moved_on)
    return cursor


@pytest.mark.parametrize(("policy", "then"), [("run", "ready"), ("cancel", "history")])
def test_a_cancel_does_not_wait_for_a_locked_dependant_and_the_keeper_resolves_it(engine, policy, then):
    first = engine.enqueue("part")
    second = engine.enqueue(depends_on=[first], on_dependency_failure=policy)
    third = engine.enqueue(depends_on=[second], on_dependency_failure=policy)
    cursor = advanced(engine)
    with engine.new_connection(autocommit=False) as busy:
        busy.rows("select from posthouse.waiting where id = %s for update", second)
        engine.connection.execute("set lock_timeout = '2s'")
        assert engine.cancel(first) == "canceled"
        assert engine.table_of(second) == "waiting"
    cursor = sweep(engine, cursor)
    assert engine.table_of(second) == then
    assert engine.table_of(third) == ("waiting" if policy == "run" else "history")


def test_the_keeper_does_not_look_at_old_edges_again_and_again(engine):
    """Edges whose transactions are long over are left out of the look."""
    part = engine.enqueue("part")
    engine.enqueue_many(*({"kind": "task", "depends_on": [part]} for _ in range(300)))
    cursor = sweep(engine)

    def looked_at():
        nonlocal cursor
        engine.enqueue("part")
        cursor = sweep(engine, cursor)
        since = cursor.strip("{}").split(",")[0]
        return engine.value("select count(*) from posthouse.job_dependencies where xid >= %s::xid8", since)

    eventually_sync(lambda: looked_at() == 0)  # other tests' transactions count too, while they last


def test_enqueuers_and_finishers_at_once_leave_no_job_behind(engine):
    """After a sweep no job waits for a finished job, for every outcome of the race."""

    def enqueue():
        with engine.new_connection() as other:
            for _ in range(40):
                first = other.enqueue("part")
                other.enqueue(depends_on=[first])

    done = []

    def finish():
        with engine.new_connection() as other:
            while len(done) < 80:
                jobs = other.claim(5, kinds=["part"])
                other.succeed(*jobs)
                done.extend(jobs)

    run_concurrently(enqueue, enqueue, finish, finish)
    sweep(engine, sweep(engine))
    assert engine.count("waiting") == 0
    assert len(engine.run_all()) == 80
