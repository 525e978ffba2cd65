"""Why a queued job has not started: each reason, with what an operator needs to know of it."""

import json
from datetime import timedelta

import pytest

from posthouse import insights, testing


@pytest.fixture
def set_limit(db):
    def call(name="limit", **fields):
        db.execute("select posthouse.set_limit(%s, %s)", (name, json.dumps(fields)))

    return call


async def test_a_paused_queue_says_who_paused_it_and_since_when(connection, db, enqueue, fleet):
    fleet.register()
    job = enqueue("mail")
    db.execute("select posthouse.pause_queue('default', 'ada')")
    found = await insights.why(connection, job)
    assert (found.reason, found.paused_by) == ("paused", "ada")
    assert "'default' is paused by ada" in found.summary
    assert await insights.database_now(connection) - found.since < timedelta(minutes=1)
    assert "posthouse queues resume default" in found.advice


async def test_all_blockers_of_a_job_are_reported(connection, db, enqueue):
    later, job = enqueue("mail", delay="1 hour"), enqueue("mail")
    db.execute("select posthouse.pause_queue('default', 'ada')")
    found = await insights.why(connection, job)
    assert found.reason == "paused"
    assert ["no live worker" in text for text in found.also] == [True]
    assert "paused by ada" in (await insights.why(connection, later)).also[0]


async def test_a_full_limit_is_named_with_its_numbers_and_the_jobs_that_hold_it(
    connection, enqueue, fleet, set_limit
):
    set_limit("mailer", kinds=["mail"], max_running=2)
    worker = fleet.register("rider", concurrency=9)
    held = []
    for _ in range(2):
        enqueue("mail")
        held.append(fleet.claim(worker))
    found = await insights.why(connection, enqueue("mail"))
    assert found.reason == "limit"
    assert "'mailer' is full: 2 of 2" in found.summary
    (limit,) = found.limits
    assert (limit.in_use, limit.max_running) == (2, 2)
    assert [(item.id, item.kind, item.worker) for item in limit.holders] == [
        (job_id, "mail", "rider") for job_id in held
    ]
    assert "limits set mailer --running" in found.advice


async def test_a_limit_per_tenant_or_key_counts_only_the_own(connection, enqueue, fleet, set_limit):
    set_limit("fair", per="tenant", max_running=1)
    set_limit("users", per="key", max_running=1)
    worker = fleet.register(concurrency=9)
    enqueue("mail", tenant_id="acme", limit_key="u1")
    held = fleet.claim(worker)
    found = await insights.why(connection, enqueue("mail", tenant_id="acme", limit_key="u1"))
    assert [(item.name, item.holders[0].id) for item in found.limits] == [("fair", held), ("users", held)]
    assert "for its tenant" in found.summary
    other = await insights.why(connection, enqueue("mail", tenant_id="globex", limit_key="u1"))
    assert (other.reason, other.limits) == ("ready", [])


async def test_a_rate_says_when_the_next_one_may_start(connection, enqueue, fleet, set_limit):
    set_limit("hourly", rate=1 / 3600, burst=1)
    worker = fleet.register(concurrency=9)
    enqueue("mail")
    fleet.claim(worker)
    found = await insights.why(connection, enqueue("mail"))
    now = await insights.database_now(connection)
    assert found.reason == "rate"
    assert timedelta(minutes=59) < found.until - now <= timedelta(hours=1)
    assert "1/h" in found.summary


MISSING = {
    "no worker": ([], "no live worker serves queue 'default' and has a handler for kind 'mail'"),
    "the kind": ([{"kinds": ["other"]}], "none has a handler for kind 'mail'"),
    "the queue": ([{"queues": ["other"]}], "none serves queue 'default'"),
    "a capability": ([{"capabilities": ["gpu"]}, {"capabilities": []}], "has the capability disk"),
}


@pytest.mark.parametrize("what", MISSING)
async def test_without_a_worker_that_can_it_says_what_is_missing(connection, enqueue, fleet, what):
    workers, hint = MISSING[what]
    for number, fields in enumerate(workers):
        fleet.register(f"w{number}", **fields)
    requires = ["gpu", "disk"] if what == "a capability" else None
    found = await insights.why(connection, enqueue("mail", requires=requires))
    assert found.reason == "no_worker"
    assert hint in found.summary
    assert found.missing == (["disk"] if requires else [])


@pytest.mark.parametrize("word", ["disabled", "draining"])
async def test_a_worker_that_is_kept_from_it_is_named(connection, db, enqueue, fleet, word):
    call = {"disabled": "disable_worker", "draining": "drain_worker"}[word]
    db.execute(f"select posthouse.{call}(%s)", (fleet.register("rider"),))
    found = await insights.why(connection, enqueue("mail"))
    assert found.reason == "no_worker"
    assert f"rider ({word})" in found.summary
    assert "posthouse workers enable rider" in found.advice


async def test_a_job_that_is_left_to_a_better_worker_says_until_when(app, connection, enqueue, fleet):
    gpu = fleet.register("gpu", capabilities=["gpu"])
    fleet.register("cpu")
    job = enqueue("mail", prefers=["gpu"])
    found = await insights.why(connection, job, preference_wait=10)
    assert found.reason == "preferred"
    assert "(gpu)" in found.summary
    now = await insights.database_now(connection)
    assert timedelta(0) < found.until - now <= timedelta(seconds=10)
    async with testing.clock(app) as clock:
        await clock.advance("11s")
        fleet.beat(gpu)
        assert (await insights.why(connection, job, preference_wait=10, offline_after=60)).reason == "ready"


async def test_an_ordered_job_reports_its_position_and_estimated_start(app, connection, enqueue, fleet):
    @app.job()
    async def mail() -> None:
        pass

    for _ in range(20):
        await mail.enqueue()
    await testing.drain(app)
    fleet.register("rider")
    for _ in range(3):
        enqueue("mail")
    enqueue("mail", priority=10)
    enqueue("mail", priority=200)
    enqueue("other")
    found = await insights.why(connection, enqueue("mail"))
    assert (found.reason, found.ahead) == ("ready", 4)
    assert 0 < found.starts_in_seconds < 60
    assert "estimated start in" in found.summary


async def test_nothing_is_guessed_for_a_kind_of_which_little_has_run(connection, enqueue, fleet):
    fleet.register()
    found = await insights.why(connection, enqueue("mail"))
    assert found.starts_in_seconds is None
    assert "about" not in found.summary


def test_the_command_shows_who_holds_a_limit(posthouse, enqueue, fleet, set_limit):
    set_limit(max_running=1)
    enqueue("mail")
    held = fleet.claim(fleet.register("rider"))
    answer = posthouse("jobs", "why", enqueue("mail"))
    assert "1 of 1 run" in answer.out
    assert f"{held}  mail  on rider" in answer.out
