"""Why a job is where it is."""

from datetime import timedelta
from uuid import uuid4

import pytest

import posthouse
from posthouse import insights, testing
from posthouse.errors import JobNotFound


async def test_a_scheduled_job_says_until_when(connection, db, enqueue):
    job = enqueue("mail", delay="1 hour")
    found = await insights.why(connection, job)
    now = await insights.database_now(connection)
    assert found.reason == "scheduled"
    assert timedelta(minutes=59) < found.until - now <= timedelta(hours=1)


async def test_a_job_that_waits_for_its_retry_says_what_went_wrong(app, connection):
    @app.job(retry=posthouse.Retry("1h"))
    async def explode() -> None:
        raise ValueError("boom")

    handle = await explode.enqueue()
    await testing.drain(app)
    found = await insights.why(connection, handle.id)
    assert (found.reason, found.last_error) == ("scheduled", "ValueError: boom")
    assert "attempt 1 of 2" in found.summary


async def test_a_job_that_is_due_but_was_not_moved_points_to_the_keeper(app, connection, enqueue):
    job = enqueue("mail", delay="1 minute")
    async with testing.clock(app) as clock:
        await clock.advance("2m")
        found = await insights.why(connection, job)
    assert found.reason == "due"
    assert "posthouse keeper" in found.advice


async def test_a_blocked_job_names_the_jobs_that_it_waits_for(connection, enqueue, fleet):
    running, queued = enqueue("mail"), enqueue("slow")
    assert fleet.claim(fleet.register()) == running
    job = enqueue("mail", depends_on=[running, queued])

    found = await insights.why(connection, job)

    assert found.reason == "blocked"
    assert {(item.id, item.kind, item.status) for item in found.blocked_by} == {
        (running, "mail", "running"),
        (queued, "slow", "queued"),
    }


async def test_a_job_blocked_by_one_that_failed_says_which_to_retry(connection, db, enqueue):
    first = enqueue("mail")
    job = enqueue("mail", depends_on=[first], on_dependency_failure="wait")
    db.execute("select posthouse.cancel(%s)", (first,))
    found = await insights.why(connection, job)
    assert [(item.id, item.status) for item in found.blocked_by] == [(first, "canceled")]
    assert f"posthouse jobs retry {first}" in found.advice


async def test_a_ready_job_that_no_worker_can_run_is_explained(connection, enqueue, fleet):
    fleet.register(name="wrong queue", kinds=["mail"], queues=["other"])
    fleet.register(name="wrong kind", kinds=["other"], queues=["default"])
    found = await insights.why(connection, enqueue("mail"))
    assert found.reason == "no_worker"
    assert "'default'" in found.summary
    assert "'mail'" in found.summary


async def test_a_ready_job_reports_its_queue_position_and_the_workers_of_its_queue(
    connection, enqueue, fleet
):
    worker = fleet.register(name="rider", concurrency=4)
    for _ in range(2):
        enqueue("mail")
    found = await insights.why(connection, enqueue("mail"))
    assert (found.reason, found.ahead) == ("ready", 2)
    assert [(item.id, item.name, item.concurrency) for item in found.workers] == [(worker, "rider", 4)]


async def test_a_ready_job_whose_workers_are_full_says_so(connection, enqueue, fleet):
    enqueue("mail")
    fleet.claim(fleet.register(concurrency=1))
    found = await insights.why(connection, enqueue("mail"))
    assert found.reason == "ready"
    assert "busy" in found.advice


async def test_a_running_job_names_its_worker_and_lease(connection, enqueue, fleet):
    job = enqueue("mail")
    worker = fleet.register(name="rider")
    fleet.claim(worker, lease="30 seconds")
    found = await insights.why(connection, job)
    assert (found.reason, found.worker_id) == ("running", worker)
    assert "rider" in found.summary
    assert found.lease_expires_at - found.since == timedelta(seconds=30)


async def test_a_running_job_whose_lease_ran_out_says_so(app, connection, enqueue, fleet):
    job = enqueue("mail")
    fleet.claim(fleet.register())
    async with testing.clock(app) as clock:
        await clock.advance("1m")
        found = await insights.why(connection, job)
    assert "lease has expired" in found.summary


async def test_an_ended_job_says_how_and_how_to_run_it_again(connection, db, enqueue):
    job = enqueue("mail")
    db.execute("select posthouse.cancel(%s)", (job,))
    found = await insights.why(connection, job)
    assert (found.reason, found.status) == ("ended", "canceled")
    assert f"posthouse jobs retry {job}" in found.advice


async def test_an_unknown_job_and_one_of_another_tenant_are_not_there(connection, enqueue):
    with pytest.raises(JobNotFound):
        await insights.why(connection, uuid4())
    with pytest.raises(JobNotFound):
        await insights.why(connection, enqueue("mail", tenant_id="acme"), tenant="other")
