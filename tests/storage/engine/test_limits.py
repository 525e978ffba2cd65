"""Limits: never more than they say, and never a place lost."""

from collections import Counter

import psycopg
import pytest

from support.engine import HOUR, run_random_mix


def fill(engine, jobs, kind="task", **fields):
    engine.enqueue_many(*[{"kind": kind, **fields}] * jobs)


WAYS_OUT = {
    "success": lambda engine, job: engine.succeed(job),
    "success with follow-ups": lambda engine, job: engine.succeed_with(job, [{"kind": "other"}]),
    "success in the handler's transaction": lambda engine, job: engine.value(
        "select posthouse.complete(%s, %s, null, null)", job.id, job.token
    ),
    "failure": lambda engine, job: engine.fail(job),
    "retry": lambda engine, job: engine.retry(job),
    "snooze": lambda engine, job: engine.settle(job, "snooze", "snoozed", HOUR),
    "release": lambda engine, job: engine.settle(job, "release", "released", 0.0),
    "cancellation": lambda engine, job: (engine.cancel(job.id), engine.succeed(job)),
    "rescue": lambda engine, job: engine.rescue([job.worker_id]),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_every_way_out_makes_room_for_one_more(engine, way):
    engine.limit(max_running=1)
    engine.register()
    fill(engine, 3)
    [job] = engine.claim(10)
    assert engine.claim(10) == []
    WAYS_OUT[way](engine, job)
    assert engine.in_use() == {}
    assert len(engine.claim(10)) == 1
    assert engine.in_use() == {"limit": 1}


def test_a_stale_report_frees_nothing(engine):
    engine.limit(max_running=1)
    engine.enqueue(max_attempts=9)
    stale = engine.claim_one()
    engine.retry(stale)
    engine.claim_one()
    assert engine.succeed(stale) == []  # it was settled before: repeated
    assert engine.settle(stale, "fail") == []
    assert engine.in_use() == {"limit": 1}


def test_a_rolled_back_completion_keeps_its_place(engine):
    engine.limit(max_running=1)
    fill(engine, 2)
    [job] = engine.claim(10)
    with engine.new_connection(autocommit=False) as caller:
        caller.succeed(job)
        caller.connection.rollback()
    assert engine.claim(10) == []
    assert engine.in_use() == {"limit": 1}


SCOPES = {
    "all": ({"max_running": 2}, 2),
    "of a kind": ({"max_running": 2, "kinds": ["a"]}, 2 + 8),
    "shared by kinds": ({"max_running": 2, "kinds": ["a", "b"]}, 2),
    "of a queue": ({"max_running": 2, "queues": ["default"]}, 2),
    "of another queue": ({"max_running": 2, "queues": ["other"]}, 16),
    "per tenant": ({"max_running": 2, "per": "tenant"}, 4),
    "of one tenant": ({"max_running": 2, "tenants": ["t1"]}, 2 + 8),
    "per key": ({"max_running": 1, "per": "key"}, 4),
    "per key of a kind": ({"max_running": 1, "per": "key", "kinds": ["a"]}, 4 + 8),
    "nothing": ({"max_running": 0}, 0),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_limit_counts(engine, scope):
    """16 jobs: two kinds, two tenants, two keys each."""
    fields, expected = SCOPES[scope]
    engine.limit(**fields)
    for kind in ("a", "b"):
        for tenant in ("t1", "t2"):
            for key in ("k1", "k2"):
                fill(engine, 2, kind, tenant_id=tenant, limit_key=key)
    jobs = engine.claim(100, kinds=["a", "b"]) + engine.claim(100, kinds=["a", "b"])
    assert len(jobs) == expected


def test_all_limits_of_a_job_hold(engine):
    engine.limit("kind", max_running=3, kinds=["a"])
    engine.limit("tenant", max_running=2, per="tenant")
    engine.limit("all", max_running=4)
    for tenant in ("t1", "t2", "t3"):
        fill(engine, 5, "a", tenant_id=tenant)
        fill(engine, 5, "b", tenant_id=tenant)
    while engine.claim(100, kinds=["a", "b"]):
        pass
    running = engine.rows("select kind, tenant_id from posthouse.running")
    assert len(running) == 4
    assert Counter(job.kind for job in running)["a"] <= 3
    assert max(Counter(job.tenant_id for job in running).values()) <= 2


def test_jobs_at_their_limit_do_not_hold_up_those_behind_them(engine):
    engine.limit(max_running=1, kinds=["slow"])
    fill(engine, 500, "slow")
    fill(engine, 3, "quick")
    kinds = Counter(job.kind for job in engine.claim(10, kinds=["slow", "quick"]))
    assert kinds == {"slow": 1, "quick": 3}
    assert engine.claim(10, kinds=["slow", "quick"]) == []


def test_a_key_at_its_limit_does_not_hold_up_the_other_keys(engine):
    engine.limit(max_running=1, per="key")
    fill(engine, 50, limit_key="busy")
    fill(engine, 1, limit_key="calm")
    assert sorted(job.limit_key for job in engine.claim(10)) == ["busy", "calm"]


def test_the_key_may_stand_in_the_payload(engine):
    announced = '[{"key": "task", "limits": {"by": "user.id"}}]'
    engine.value("select posthouse.announce(%s::jsonb)", announced)
    engine.limit(max_running=1, per="key")
    for user in (1, 1, 2):
        engine.enqueue(payload={"user": {"id": user}})
    engine.enqueue(payload={})
    assert sorted(str(job.limit_key) for job in engine.claim(10)) == ["1", "2", "None"]


def test_the_oldest_gets_the_free_place(engine):
    engine.limit(max_running=1)
    first, second = engine.enqueue("a"), engine.enqueue("b")
    assert engine.run_all(kinds=["a", "b"]) == [first, second]


# Changed while jobs run.


def test_a_limit_made_while_jobs_run_counts_them(engine):
    fill(engine, 5)
    running = engine.claim(3)
    engine.limit(max_running=4)
    assert engine.in_use() == {"limit": 3}
    assert len(engine.claim(10)) == 1
    engine.succeed(*running)
    assert engine.in_use() == {"limit": 1}


def test_a_limit_is_raised_and_lowered_live(engine):
    engine.limit(max_running=1)
    fill(engine, 10)
    jobs = engine.claim(10)
    engine.limit(max_running=3)
    jobs += engine.claim(10)
    assert len(jobs) == 3
    engine.limit(max_running=1)
    engine.succeed(*jobs[:2])
    assert engine.claim(10) == []
    engine.succeed(jobs[2])
    assert len(engine.claim(10)) == 1


def test_a_removed_limit_blocks_no_job_and_leaves_no_rows(engine):
    engine.limit(max_running=1)
    fill(engine, 3)
    [job] = engine.claim(10)
    assert engine.value("select posthouse.remove_limit('limit', 'ann')") is True
    assert engine.value("select posthouse.remove_limit('limit', 'ann')") is False
    assert len(engine.claim(10)) == 2
    assert engine.succeed(job) == []
    assert engine.count("limit_slots") == 0


def test_a_limit_made_again_counts_from_what_is_true(engine):
    engine.limit(max_running=5)
    fill(engine, 4)
    engine.claim(2)
    engine.value("select posthouse.remove_limit('limit')")
    engine.claim(1)
    engine.limit(max_running=4)
    assert engine.in_use() == {"limit": 3}


def test_who_changed_a_limit_is_on_record(engine):
    engine.value("select posthouse.set_limit('limit', '{\"max_running\": 1}', 'ann')")
    engine.value("select posthouse.set_limit('limit', '{\"max_running\": 2}', 'bob')")
    notes = engine.rows("select actor, before ->> 'max_running' as old, after ->> 'max_running' as new "
                        "from posthouse.audit order by id")  # fmt: skip
    assert notes == [("ann", None, "1"), ("bob", "1", "2")]


WRONG = [
    {}, {"max_running": -1}, {"rate": 0}, {"rate": 1, "per": "moon"}, {"max_running": "many"},
    {"rate": 1, "burst": 2, "weights": {"task": 3}},
]  # fmt: skip


@pytest.mark.parametrize("fields", WRONG)
def test_a_limit_that_makes_no_sense_is_refused(engine, fields):
    with pytest.raises(psycopg.Error) as caught:
        engine.limit(**fields)
    assert caught.value.sqlstate == "PH012"
    assert engine.count("limits") == 0


# Rates.


def test_a_rate_lets_a_burst_through_and_then_so_many_a_second(engine):
    engine.limit(rate=2, burst=4)
    fill(engine, 100)
    assert len(engine.claim(50)) == 4
    assert engine.claim(50) == []
    engine.advance(1.01)
    assert len(engine.claim(50)) == 2
    engine.advance(100)
    assert len(engine.claim(50)) == 4


def test_a_start_may_cost_more_than_one(engine):
    engine.limit(rate=1, burst=10, weights={"large": 4})
    fill(engine, 5, "large")
    assert len(engine.claim(50, kinds=["large", "small"])) == 2
    fill(engine, 5, "small")
    assert len(engine.claim(50, kinds=["large", "small"])) == 2


def test_a_rate_per_key_counts_each_alone(engine):
    engine.limit(rate=1, burst=1, per="key")
    fill(engine, 3, limit_key="a")
    fill(engine, 3, limit_key="b")
    assert sorted(job.limit_key for job in engine.claim(50)) == ["a", "b"]


def test_a_retry_counts_as_a_start(engine):
    engine.limit(rate=1, burst=1)
    engine.enqueue()
    engine.retry(engine.claim_one())
    assert engine.claim(10) == []
    engine.advance(2)
    assert engine.claim_one().attempt_count == 2


def test_it_is_known_when_the_next_may_start(engine):
    ask = "select posthouse.next_token('{default}', '{task}')"
    assert engine.value(ask) is None
    engine.limit(rate=0.1, burst=1)
    fill(engine, 2)
    assert engine.value(ask) is None
    engine.claim(10)
    assert 8 < engine.value(ask) <= 10


def test_unused_limit_counters_are_deleted(engine):
    engine.limit("running", max_running=2, per="key")
    engine.limit("rate", rate=1, burst=2, per="key")
    fill(engine, 1, limit_key="a")
    fill(engine, 1, limit_key="b")
    jobs = engine.claim(10)
    engine.succeed(jobs[0])
    assert engine.value("select posthouse.delete_unused_slots()") == 1
    engine.advance(100)
    assert engine.value("select posthouse.delete_unused_slots()") == 1
    left = f"\x1fdefault\x1f{jobs[1].limit_key}"
    assert engine.in_use() == {f"running{left}": 1, f"rate{left}": 1}


# Concurrent claims.

LIMITS = {
    "all": {"max_running": 7},
    "kind": {"max_running": 3, "kinds": ["a"]},
    "tenant": {"max_running": 4, "per": "tenant"},
    "key": {"max_running": 1, "per": "key"},
}


def work(engine, rng):
    jobs = engine.claim(rng.randint(1, 6), kinds=["a", "b"], lease=rng.choice([0.01, 60]))
    if not jobs:
        fill(engine, rng.randint(1, 5), rng.choice("ab"), tenant_id=rng.choice(["t1", "t2"]),
             limit_key=rng.choice(["k1", "k2", None]), max_attempts=9)  # fmt: skip
    way = rng.choice(["succeed", "retry", "release", "fail", "vanish"])
    if way == "succeed":
        engine.succeed(*jobs)
    elif way != "vanish":
        engine.settle_many(jobs, way, "failed", 0.0)


def keep(engine, rng):
    engine.rescue(crash_limit=100)
    engine.value("select posthouse.delete_unused_slots()")


def meddle(engine, rng):
    name = rng.choice(list(LIMITS))
    engine.limit(name, **LIMITS[name])


def watch(engine, rng):
    """One statement, one instant."""
    [now] = engine.rows(
        "select count(*) as n, count(*) filter (where kind = 'a') as a, "
        "(select max(n) from (select count(*) as n from posthouse.running group by tenant_id) t) as tenant, "
        "(select max(n) from (select count(*) as n from posthouse.running where limit_key is not null "
        " group by tenant_id, limit_key) k) as key from posthouse.running"
    )
    assert now.n <= 7
    assert now.a <= 3
    assert (now.tenant or 0) <= 4
    assert (now.key or 0) <= 1


def test_in_a_storm_no_limit_is_ever_passed_and_no_place_is_lost(engine):
    for name, fields in LIMITS.items():
        engine.limit(name, **fields)
    run_random_mix(engine, work, work, work, keep, meddle, watch)
    assert engine.count("history") > 0
    engine.advance(HOUR)
    engine.rescue(crash_limit=100)
    assert engine.in_use() == {}
    while jobs := engine.claim(100, kinds=["a", "b"]):
        engine.succeed(*jobs)
    assert (engine.count("ready"), engine.in_use()) == (0, {})
