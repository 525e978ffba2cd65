"""Enqueue: where a job lands, and with what."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from support.engine import has_lock_waiter, run_concurrently
from support.waiting import eventually_sync

LARGE = {"text": "x" * 5_000}


def test_a_bare_job_is_ready_with_the_defaults(engine):
    job = engine.job(engine.enqueue("welcome"))
    assert (job.status, job.job_table, job.kind, job.queue, job.tenant_id) == (
        "queued", "ready", "welcome", "default", "default",
    )  # fmt: skip
    assert (job.priority, job.max_attempts, job.attempt_count, job.generation) == (100, 3, 0, 1)
    assert (job.source, job.payload, job.timeout_seconds) == ("manual", {}, None)
    assert job.scheduled_for == job.queued_at


def test_every_field_is_stored(engine):
    job_id, parent = uuid4(), uuid4()
    fields = {
        "tenant_id": "acme", "queue": "mail", "priority": 7, "max_attempts": 9, "timeout_seconds": 12.5,
        "source": "event", "correlation_id": "c", "subject": "s", "source_ref": "r", "created_by": "me",
    }  # fmt: skip
    engine.enqueue(
        "welcome", id=job_id, parent_id=parent, payload={"a": [1]}, retry={"ladder": [1]}, **fields
    )
    job = engine.job(job_id)
    assert {name: getattr(job, name) for name in fields} == fields
    assert (job.parent_id, job.payload) == (parent, {"a": [1]})
    assert engine.value("select retry from posthouse.ready") == {"ladder": [1]}


def test_what_is_left_out_comes_from_the_definition_of_the_kind(engine):
    engine.connection.execute(
        "insert into posthouse.definitions (key, queue, priority, max_attempts, timeout_seconds, updated_at) "
        "values ('welcome', 'mail', 5, 8, 30, now())"
    )
    known, overridden, other = (
        engine.job(engine.enqueue("welcome")),
        engine.job(engine.enqueue("welcome", queue="q", priority=6, max_attempts=1, timeout_seconds=1)),
        engine.job(engine.enqueue("other")),
    )
    assert (known.queue, known.priority, known.max_attempts, known.timeout_seconds) == ("mail", 5, 8, 30)
    assert (overridden.queue, overridden.priority, overridden.max_attempts) == ("q", 6, 1)
    assert (other.queue, other.priority) == ("default", 100)


def test_many_jobs_are_answered_in_order(engine):
    answers = engine.enqueue_many(*({"kind": "task", "payload": {"n": n}} for n in range(50)))
    assert [outcome for _, outcome in answers] == ["created"] * 50
    assert [engine.job(job_id).payload["n"] for job_id, _ in answers] == list(range(50))


def test_plain_and_special_jobs_of_one_call_are_answered_in_order(engine):
    jobs = [
        {"kind": "task", "subject": "plain"},
        {"kind": "task", "subject": "keyed", "dedupe_key": "k"},
        {"kind": "task", "subject": "late", "delay": 60},
        {"kind": "task", "subject": "large", "payload": LARGE},
        {"kind": "task", "subject": "ordered", "order_key": "o"},
        {"kind": "task", "subject": "plain again"},
    ]
    answers = engine.enqueue_many(*jobs)
    assert [engine.job(job_id).subject for job_id, _ in answers] == [job["subject"] for job in jobs]


def test_nothing_to_enqueue_is_fine(engine):
    assert engine.enqueue_many() == []


@pytest.mark.parametrize(
    "options", [{"delay": 3600}, {"scheduled_for": datetime.now(UTC) + timedelta(hours=1)}]
)
def test_a_job_that_is_due_later_waits(engine, options):
    job_id = engine.enqueue(**options)
    assert engine.table_of(job_id) == "waiting"
    assert engine.claim() == []
    assert 1800 < engine.value("select posthouse.next_due()") <= 3600


def test_a_job_that_was_due_before_is_ready(engine):
    assert engine.table_of(engine.enqueue(scheduled_for="2020-01-01T00:00:00Z")) == "ready"


def test_a_known_id_makes_no_second_job_wherever_the_first_is(engine):
    job_id = uuid4()
    again = {"kind": "task", "id": job_id, "verify": True}
    assert engine.enqueue_many(again) == [(job_id, "created")]
    assert engine.enqueue_many(again) == [(job_id, "repeated")]
    job = engine.claim_one()
    assert engine.enqueue_many(again) == [(job_id, "repeated")]
    engine.retry(job, delay=60)
    assert engine.enqueue_many(again) == [(job_id, "repeated")]
    engine.cancel(job_id)
    assert engine.enqueue_many(again) == [(job_id, "repeated")]
    assert engine.count("jobs") == 1


def test_an_id_twice_in_one_call_makes_one_job(engine):
    job_id = uuid4()
    again = {"kind": "task", "id": job_id, "verify": True, "payload": LARGE}
    assert engine.enqueue_many(again, again) == [(job_id, "created"), (job_id, "repeated")]
    assert engine.count("jobs") == 1


def test_a_large_payload_is_kept_aside_and_whole_in_the_view_along_the_way(engine):
    job_id = engine.enqueue(payload=LARGE)
    assert engine.value("select payload from posthouse.ready") is None
    assert engine.job(job_id).payload == LARGE
    job = engine.claim_one()
    assert engine.job(job_id).payload == LARGE
    engine.retry(job, delay=60)
    assert engine.job(job_id).payload == LARGE
    engine.cancel(job_id)
    assert engine.job(job_id).payload == LARGE
    assert engine.reopen(job_id) == "queued"
    assert engine.job(job_id).payload == LARGE


def test_a_small_payload_is_not_kept_aside(engine):
    engine.enqueue(payload={"a": 1})
    assert engine.count("payloads") == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": -3},
        {"source": "elsewhere"},
        {"kind": None},
        {"on_duplicate": "explode", "dedupe_key": "k"},
        {"on_dependency_failure": "explode", "order_key": "k"},
    ],
    ids=str,
)
def test_a_wrong_job_is_refused_and_takes_its_peers_with_it(engine, wrong):
    with pytest.raises(psycopg.Error):
        engine.enqueue_many({"kind": "task"}, {"kind": "task", **wrong})
    assert engine.count("jobs") == 0
    assert engine.count("dedupe_keys") == 0


def test_sql_takes_every_option(engine):
    before = engine.enqueue()
    job_id = engine.value(
        """select posthouse.enqueue(
             'welcome', '{"a": 1}', tenant_id => 'acme', queue => 'mail', priority => 3, delay => '1 hour',
             dedupe_key => 'k', dedupe_window => '1 day', on_duplicate => 'reject', order_key => 'o',
             depends_on => array[%s::uuid], on_dependency_failure => 'run', max_attempts => 2,
             timeout => '90 seconds', correlation_id => 'c', subject => 's', source => 'event',
             source_ref => 'r', created_by => 'me')""",
        before,
    )
    job = engine.job(job_id)
    assert (job.kind, job.payload, job.tenant_id, job.queue, job.priority) == (
        "welcome", {"a": 1}, "acme", "mail", 3,
    )  # fmt: skip
    assert job.scheduled_for - job.queued_at == timedelta(hours=1)
    assert (job.dedupe_key, job.order_key, job.depends_on, job.blockers) == ("k", "o", [before], 1)
    assert (job.max_attempts, job.timeout_seconds, job.correlation_id, job.subject) == (2, 90, "c", "s")
    assert (job.source, job.source_ref, job.created_by) == ("event", "r", "me")


def test_sql_keeps_nulls_inside_a_payload(engine):
    job_id = engine.value("select posthouse.enqueue('x', %s)", Jsonb({"a": None, "b": [None]}))
    assert engine.job(job_id).payload == {"a": None, "b": [None]}


def test_sql_takes_an_id_and_makes_one_job_of_it(engine):
    job_id = uuid4()
    for _ in range(3):
        assert engine.value("select posthouse.enqueue('x', id => %s)", job_id) == job_id
    assert engine.count("jobs") == 1


def test_sql_raises_for_a_rejected_duplicate(engine):
    engine.enqueue(dedupe_key="k")
    with pytest.raises(psycopg.Error) as caught:
        engine.value("select posthouse.enqueue('x', dedupe_key => 'k', on_duplicate => 'reject')")
    assert caught.value.sqlstate == "PH001"
    assert "'k'" in str(caught.value)


TRIGGER = """
create table orders (id serial primary key, customer text);
create function on_order() returns trigger language plpgsql as $$
begin
  perform posthouse.enqueue('confirm', jsonb_build_object('order', new.id), dedupe_key => 'order-' || new.id);
  return new;
end $$;
create trigger confirm after insert on orders for each row execute function on_order();
"""


def test_a_trigger_enqueues_with_the_row_and_not_without_it(engine):
    engine.connection.execute(TRIGGER)
    with engine.new_connection(autocommit=False) as caller:
        caller.connection.execute("insert into orders (customer) values ('a'), ('b')")
        assert engine.count("jobs") == 0
        caller.commit()
        caller.connection.execute("insert into orders (customer) values ('c')")
        caller.connection.rollback()
    assert [job.payload for job in engine.claim(10, kinds=["confirm"])] == [{"order": 1}, {"order": 2}]
    assert engine.count("dedupe_keys") == 2


def test_enqueue_in_a_transaction_that_is_rolled_back_leaves_nothing(engine):
    before = engine.dump_tables()
    with engine.new_connection(autocommit=False) as caller:
        first = caller.enqueue(payload=LARGE)
        caller.enqueue(dedupe_key="k", order_key="o", depends_on=[first])
        caller.enqueue(delay=60, order_key="o")
        caller.connection.rollback()
    assert engine.dump_tables() == before


def test_enqueue_in_a_transaction_that_is_committed_is_claimable(engine):
    with engine.new_connection(autocommit=False) as caller:
        job_id = caller.enqueue("fresh kind", queue="fresh queue")
        assert engine.claim(kinds=["fresh kind"], queues=["fresh queue"]) == []
        caller.commit()
    assert engine.claim_one(kinds=["fresh kind"], queues=["fresh queue"]).id == job_id


def test_a_savepoint_that_is_rolled_back_takes_only_its_own_job(engine):
    with engine.new_connection(autocommit=False) as caller:
        kept = caller.enqueue("kept")
        with caller.connection.transaction():
            caller.enqueue("gone")
            raise psycopg.Rollback
        caller.commit()
    assert [row.id for row in engine.rows("select id from posthouse.jobs")] == [kept]
    assert engine.claim_one(kinds=["kept", "gone"]).id == kept


FATES = {
    "its time has come": lambda engine, _: {
        "scheduled_for": str(engine.value("select posthouse.now() + '1 s'"))
    },
    "its dependency has ended": lambda _, dependency: {"depends_on": [str(dependency.id)]},
}


@pytest.mark.parametrize("fate", FATES)
def test_a_repeat_of_an_uncommitted_first_try_makes_no_second_job_though(engine, fate):
    dependency = engine.start()
    request = {"kind": "task", "id": str(uuid4()), **FATES[fate](engine, dependency)}
    with engine.new_connection(autocommit=False) as caller, engine.new_connection() as repeater:
        caller.enqueue_many(request)
        engine.succeed(dependency)
        engine.advance(60)
        answers = run_concurrently(
            lambda: repeater.enqueue_many({**request, "verify": True}),
            lambda: (eventually_sync(lambda: has_lock_waiter(engine)), caller.commit()),
        )
    assert [outcome for _, outcome in answers[0]] == ["repeated"]
    engine.value("select posthouse.recheck_dependencies()::text")
    engine.promote()
    assert len(engine.claim(10)) == 1


def test_two_callers_who_replace_the_same_keys_in_any_order_do_not_deadlock(engine):
    keys = [f"key {number}" for number in range(4)]

    def caller(order):
        with engine.new_connection() as own:
            for _ in range(25):
                own.enqueue_many(*[
                    {"kind": "task", "dedupe_key": key, "on_duplicate": "replace"} for key in order
                ])  # fmt: skip

    run_concurrently(
        *[lambda order=order: caller(order) for order in (keys, keys[::-1], keys[1:] + keys[:1])]
    )
    assert engine.count("ready") == len(keys)
