"""A job as a chart and as a graph, over HTTP."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from support.engine import Engine


@pytest.fixture
def engine(database):
    with psycopg.connect(database, autocommit=True) as connection:
        yield Engine(connection, database)


async def timeline(client, job_id):
    answer = await client.get(f"/api/v1/jobs/{job_id}/timeline")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def pipeline(client, job_id):
    answer = await client.get(f"/api/v1/jobs/{job_id}/pipeline")
    assert answer.status_code == 200, answer.text
    return answer.json()


def shape(found):
    return [(span["type"], span["reason"] or span["name"], span["status"]) for span in found["spans"]]


def edges(found):
    return {(edge["from"], edge["to"], edge["type"]) for edge in found["edges"]}


def seconds(span):
    return datetime.fromisoformat(span["ended_at"]) - datetime.fromisoformat(span["started_at"])


def move_back(engine, **by):
    """Lets time pass: all that is on record of attempts and of jobs happened so much earlier."""
    interval = timedelta(**by)
    for table, columns in {
        "waiting": "queued_at scheduled_for due_at started_at",
        "ready": "queued_at scheduled_for started_at",
        "history": "queued_at scheduled_for started_at attempt_started_at finished_at",
        "past_attempts": "started_at finished_at ready_at",
        "steps": "finished_at",
        "parts": "started_at",
    }.items():
        moved = ", ".join(f"{name} = {name} - %(by)s" for name in columns.split())
        engine.connection.execute(f"update posthouse.{table} set {moved}", {"by": interval})


async def test_a_timeline_tells_what_a_job_waited_for_and_what_it_did(api, engine):
    acme = await api.client_for("tenant-viewer", "acme")
    engine.register()
    job = engine.start(tenant_id="acme", subject="s-1")
    engine.value("select posthouse.save_step(%s, %s, '1 min', 'fetch', '1', 0)", job.id, job.token)
    part = {"name": "page 1", "status": "in_progress", "percent": 1}
    engine.rows(
        "select * from posthouse.report(%s, '1 min')",
        json.dumps([{"id": str(job.id), "token": str(job.token), "parts": [part]}]),
    )
    engine.retry(job, delay=60.0, message="password=hunter2-hunter2")
    move_back(engine, seconds=120)
    engine.promote()
    again = engine.claim_one()
    engine.succeed(again)

    found = await timeline(acme, job.id)
    assert found["job"]["status"] == "succeeded"
    assert found["job"]["subject"] == "s-1"
    assert not found["truncated"]
    assert shape(found) == [
        ("wait", "queued", "over"),
        ("attempt", "attempt 1", "failed"),
        ("step", "fetch", "succeeded"),
        ("part", "page 1", "in_progress"),
        ("wait", "retry", "over"),
        ("wait", "queued", "over"),
        ("attempt", "attempt 2", "succeeded"),
    ]
    assert found["spans"][3]["ended_at"] == found["spans"][1]["ended_at"], (
        "it goes on no longer than its attempt"
    )
    retry = next(span for span in found["spans"] if span["reason"] == "retry")
    assert seconds(retry) == timedelta(seconds=60)
    failed = found["spans"][1]
    assert failed["error"].startswith("ValueError: password=")
    assert "hunter2-hunter2" not in failed["error"]
    assert failed["worker_id"] == str(engine.worker)
    assert failed["worker"] is None, "machines are the operator's"
    boss = await api.client_for("super-admin")
    assert (await timeline(boss, job.id))["spans"][1]["worker"] == "w"


async def test_the_wait_that_goes_on_has_the_reason_of_now(api, engine):
    acme = await api.client_for("tenant-viewer", "acme")
    first = engine.enqueue(tenant_id="acme")
    second = engine.enqueue(tenant_id="acme", depends_on=[str(first)])
    later = engine.enqueue(tenant_id="acme", delay=3600)
    engine.connection.execute("select posthouse.pause_queue('default', 'operator')")

    async def last(job_id):
        span = (await timeline(acme, job_id))["spans"][-1]
        assert (span["type"], span["status"], span["ended_at"]) == ("wait", "waiting", None)
        return span["reason"], span["detail"]

    assert await last(first) == ("paused", "queue 'default' is paused")
    assert (await last(second))[0] == "blocked"
    assert (await last(later))[0] == "scheduled"


async def test_a_blocked_and_a_snoozed_and_a_reopened_job(api, engine):
    acme = await api.client_for("tenant-viewer", "acme")
    first = engine.start(tenant_id="acme")
    second = engine.enqueue(tenant_id="acme", depends_on=[str(first.id)])
    engine.succeed(first)
    engine.promote()
    job = engine.claim_one()
    assert job.id == second
    engine.settle(job, "snooze", "snoozed", 0.0)
    engine.promote()
    engine.fail(engine.claim_one())
    move_back(engine, hours=1)
    engine.value("select posthouse.reopen(%s)", second)
    found = await timeline(acme, second)
    reasons = [span["reason"] or span["status"] for span in found["spans"]]
    assert reasons[0] == "blocked"
    assert "snoozed" in reasons
    assert "failed" in reasons
    assert reasons[-1] == "no_worker"
    waits = datetime.fromisoformat(found["spans"][-1]["started_at"])
    assert datetime.fromisoformat(found["now"]) - waits < timedelta(minutes=30), (
        "while it had ended it did not wait"
    )


async def test_a_job_that_was_canceled_before_it_ran_has_waited(api, engine):
    acme = await api.client_for("tenant-viewer", "acme")
    job = engine.enqueue(tenant_id="acme", delay=3600)
    engine.value("select posthouse.cancel(%s)", job)
    assert shape(await timeline(acme, job)) == [("wait", "scheduled", "over")]


async def test_a_timeline_is_bounded_and_keeps_what_came_last(api, engine):
    acme = await api.client_for("tenant-viewer", "acme")
    job = engine.start(tenant_id="acme")
    engine.connection.execute(
        "insert into posthouse.steps (job_id, finished_at, generation, attempt, seconds, tenant_id, name) "
        "select %s, posthouse.now() + make_interval(secs => n), 1, 1, 0, 'acme', 'step ' || n "
        "from generate_series(1, 700) as n",
        (job.id,),
    )
    found = await timeline(acme, job.id)
    assert (len(found["spans"]), found["truncated"], found["spans"][-1]["name"]) == (500, True, "step 700")


async def test_follow_ups_are_part_of_a_timeline_and_of_the_graph(api, engine):
    acme = await api.client_for("tenant-viewer", "acme")
    root = engine.start(tenant_id="acme")
    children = [uuid4(), uuid4()]
    follow_ups = [
        {"id": str(child), "kind": "task", "tenant_id": "acme", "parent_id": str(root.id),
         "correlation_id": str(root.id)}
        for child in children
    ]  # fmt: skip
    engine.succeed_with(root, follow_ups)
    last = engine.enqueue(
        tenant_id="acme", correlation_id=str(root.id), depends_on=[str(child) for child in children]
    )
    jobs = (await timeline(acme, root.id))["follow_ups"]
    assert {job["id"] for job in jobs} == {str(child) for child in children}
    assert {job["status"] for job in jobs} == {"queued"}

    expected = {(str(root.id), str(child), "follow_up") for child in children}
    expected |= {(str(child), str(last), "depends_on") for child in children}
    for job_id in (root.id, children[0], last):
        found = await pipeline(acme, job_id)
        assert {node["id"] for node in found["nodes"]} == {str(id_) for id_ in (root.id, *children, last)}
        assert edges(found) == expected
        assert not found["truncated"]
    assert [(stage["definition_key"], stage["jobs"]) for stage in found["stages"]] == [("task", 3)]


async def test_jobs_that_depend_on_each_other_are_a_graph_without_a_correlation(api, engine):
    acme = await api.client_for("tenant-viewer", "acme")
    a = engine.enqueue(tenant_id="acme")
    b = engine.enqueue(tenant_id="acme", depends_on=[str(a)])
    c = engine.enqueue(tenant_id="acme", depends_on=[str(b)])
    assert edges(await pipeline(acme, c)) == {(str(a), str(b), "depends_on"), (str(b), str(c), "depends_on")}
    assert edges(await pipeline(acme, a)) == {(str(a), str(b), "depends_on")}


async def test_a_large_pipeline_is_cut_and_counted(api, engine):
    acme = await api.client_for("tenant-viewer", "acme")
    made = engine.enqueue_many(
        *({"kind": "task", "tenant_id": "acme", "correlation_id": "batch"} for _ in range(250))
    )
    last = str(max(job_id for job_id, _ in made))
    found = await pipeline(acme, last)
    assert found["truncated"]
    assert len(found["nodes"]) == 201
    assert last in {node["id"] for node in found["nodes"]}
    assert found["stages"][0]["jobs"] == 250


async def test_of_two_tenants_with_the_same_correlation_each_has_a_graph_of_its_own(api, engine):
    mine = engine.enqueue(tenant_id="acme", correlation_id="same")
    theirs = engine.enqueue(tenant_id="other", correlation_id="same")
    acme, boss = await api.client_for("tenant-viewer", "acme"), await api.client_for("super-admin")
    for client in (acme, boss):
        assert [node["id"] for node in (await pipeline(client, mine))["nodes"]] == [str(mine)]
    for what in ("timeline", "pipeline"):
        answer = await acme.get(f"/api/v1/jobs/{theirs}/{what}")
        assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
