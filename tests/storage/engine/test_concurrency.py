"""All operations at once on the same rows: no deadlock, and every job ends exactly once."""

from collections import Counter
from uuid import uuid4

from support.engine import run_random_mix
from support.waiting import eventually_sync

KEYS = 6
CLAIMS = set()


def any_job(engine, rng):
    found = engine.rows("select id from posthouse.jobs order by finished_at desc nulls first limit 40")
    return rng.choice(found).id if found else uuid4()


def enqueue(engine, rng):
    def one():
        options = {"kind": "task", "max_attempts": rng.randint(1, 4), "id": str(uuid4()), "verify": True}
        if rng.random() < 0.5:
            options["dedupe_key"] = f"key {rng.randrange(KEYS)}"
            options["on_duplicate"] = rng.choice(["existing", "reject", "replace", "reuse"])
        if rng.random() < 0.2:
            options["dedupe_window"] = 1
        if rng.random() < 0.4:
            options["order_key"] = f"line {rng.randrange(KEYS)}"
        if rng.random() < 0.4:
            options["depends_on"] = list({str(any_job(engine, rng)) for _ in range(rng.randint(1, 3))})
            options["on_dependency_failure"] = rng.choice(["cancel", "cancel", "run"])
        if rng.random() < 0.1:
            options["delay"] = rng.random()
        return options

    jobs = [one() for _ in range(rng.randint(1, 5))]
    known = {row.id for row in engine.rows("select id from posthouse.jobs")}
    for job in jobs:
        job["depends_on"] = [d for d in job.get("depends_on", []) if d in map(str, known)]
    answers = engine.enqueue_many(*jobs)
    return Counter(outcome for _, outcome in answers)


def work(engine, rng):
    jobs = engine.claim(rng.randint(1, 6), lease=rng.choice([0.01, 60]))
    rng.shuffle(jobs)
    CLAIMS.update((job.id, job.token) for job in jobs)
    if not jobs:
        return {}
    way = rng.choice(
        ["succeed", "succeed", "fail", "exhaust", "retry", "snooze", "release", "cancel", "vanish"]
    )
    if way == "succeed":
        engine.succeed(*jobs)
    elif way == "vanish":
        engine.connection.execute(
            "update posthouse.running set lease_expires_at = now() where token = %s", (jobs[0].token,)
        )
    else:
        engine.settle_many(jobs, way, "failed", rng.choice([0.0, 0.01]))
    return {"claims": 1}


def beat(engine, rng):
    held = engine.rows("select id, token from posthouse.running limit 50")
    engine.heartbeat(*held, lease=rng.choice([0.01, 60]))
    for job in held[:2]:
        engine.progress(job, 1.0)
    return {"beats": 1}


def keep(engine, rng):
    engine.rescue()
    engine.value("select posthouse.recheck_dependencies()::text")
    engine.promote(rng.randint(1, 50))
    return {"rounds": 1}


def meddle(engine, rng):
    job_id = any_job(engine, rng)
    try:
        engine.cancel(job_id) if rng.random() < 0.7 else engine.reopen(job_id)
    except Exception as error:
        if getattr(error, "sqlstate", "") != "PH001":  # its dedupe key is taken by now
            raise
    return {"meddled": 1}


def watch(engine, rng):
    """At every instant, of each line at most one runs."""
    crowded = engine.rows(
        "select tenant_id, order_key from posthouse.running where order_key is not null "
        "group by 1, 2 having count(*) > 1"
    )
    assert crowded == []
    return {"looks": 1}


def drain(engine):
    """The storm is over: everything that is left runs to its end."""
    engine.advance(24 * 3600)

    def idle():
        engine.rescue(crash_limit=1000)
        engine.value("select posthouse.recheck_dependencies()::text")
        engine.promote()
        while jobs := engine.claim(100):
            engine.succeed(*jobs)
        return engine.count("ready") + engine.count("running") + engine.count("waiting") == 0

    eventually_sync(idle)


def test_a_storm_on_the_same_rows_has_no_deadlock_and_leaves_every_job_ended_once(engine):
    counts = run_random_mix(engine, enqueue, enqueue, work, work, beat, keep, meddle, meddle, watch)
    assert counts["created"] > 20
    assert counts["claims"] > 20
    assert counts["meddled"] > 20
    drain(engine)
    assert engine.count("history") == engine.value("select count(distinct id) from posthouse.history")
    assert engine.count("history") == counts["created"]
    assert engine.count("job_dependencies") == 0
    assert engine.value("select count(*) from posthouse.dedupe_keys where is_active") == 0


def test_every_claim_of_a_storm_is_accounted_for(engine):
    """Each claim is the attempt of one record, and no job has more attempts than it may."""
    CLAIMS.clear()
    run_random_mix(engine, enqueue, work, work, keep, meddle)
    drain(engine)
    recorded = engine.rows(
        "select job_id as id, token from posthouse.past_attempts "
        "union all select id, token from posthouse.history where token is not null"
    )
    assert len(recorded) == len(set(recorded))
    assert {(row.id, row.token) for row in recorded} >= CLAIMS
    assert engine.rows("select id from posthouse.history where attempt_count > max_attempts") == []
