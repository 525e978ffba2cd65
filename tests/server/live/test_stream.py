"""Changes as they happen, over HTTP."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from uuid import uuid4

import posthouse
from support.databases import define
from support.event_stream import streaming
from support.server import RunningServer
from support.waiting import WAIT_SECONDS
from support.workers import cancel, claim_as_other_worker, expire_lease_and_rescue, running_worker


async def test_a_job_is_streamed_from_start_to_end(api, settings):
    client = await api.client_for("tenant-viewer", "acme")
    admin = await api.client_for("tenant-admin", "acme")
    app = posthouse.App(settings=settings)
    go_on = asyncio.Event()

    @app.job()
    async def climb(job: posthouse.Job) -> None:
        await job.progress(40, step="half way")
        await go_on.wait()

    define(api.database, "climb")
    async with app, streaming(client) as stream:
        job = (await admin.post("/api/v1/jobs", json={"definition_key": "climb"})).json()["id"]
        await stream.until(lambda s: s.statuses(job) == ["queued"])
        async with running_worker(app):
            await stream.until(lambda s: any(j["current_step"] == "half way" for j in s.of("job")))
            go_on.set()
            await stream.until(lambda s: s.statuses(job)[-1] == "succeeded")
    assert set(stream.statuses(job)) == {"queued", "running", "succeeded"}
    assert all("payload" not in event for event in stream.of("job"))
    assert stream.of("counters")


async def test_lines_of_a_jobs_log_come_before_its_end_and_none_twice(api, settings):
    client = await api.client_for("tenant-viewer", "acme")
    app = posthouse.App(settings=settings)
    go_on = asyncio.Event()

    @app.job()
    async def talk(job: posthouse.Job) -> None:
        job.log.info("first, with password=hunter2")
        await go_on.wait()
        job.log.warning("last")

    async with app, running_worker(app):
        handle = await talk.using(tenant="acme").enqueue()
        async with streaming(client, job=handle.id) as stream:
            await stream.until(lambda s: s.of("log"))
            mark = stream.last_id
        async with streaming(client, job=handle.id, last_id=mark) as again:
            await again.until(lambda s: s.of("job"))
            go_on.set()
            await again.until(lambda s: "succeeded" in s.statuses(handle.id))
        assert [line["text"] for line in stream.of("log")] == ["first, with password=[redacted]"]
        assert [line["text"] for line in again.of("log")] == ["last"]
        names = [name for name, _ in again.events]
        assert names.index("log") < len(names) - 1
        assert again.events[-1][1]["status"] == "succeeded"


async def test_a_log_is_followed_from_the_line_that_was_read_last(api, settings):
    client = await api.client_for("tenant-viewer", "acme")
    app = posthouse.App(settings=settings)

    @app.job()
    async def count(job: posthouse.Job) -> None:
        for number in range(5):
            job.log.info("%d", number)

    async with app, running_worker(app):
        handle = await count.using(tenant="acme").enqueue()
        await handle.wait("20s")
    read = f"/api/v1/jobs/{handle.id}/logs?last=true&limit=2"
    last = (await client.get(read)).json()
    assert ([line["text"] for line in last["items"]], last["next_cursor"]) == (["3", "4"], None)
    earlier = (await client.get(f"{read}&before={last['items'][0]['sequence']}")).json()
    assert [line["text"] for line in earlier["items"]] == ["1", "2"]
    async with streaming(client, job=handle.id, log_after=earlier["items"][-1]["sequence"]) as stream:
        await stream.until(lambda s: len(s.of("log")) == 2)
    assert [line["text"] for line in stream.of("log")] == ["3", "4"]


async def test_no_filter_shows_what_belongs_to_another_tenant(api, db):
    """`other` sees its own job and nothing of acme's, for every request."""
    spy = await api.client_for("tenant-admin", "other")
    theirs = enqueued(db, tenant_id="acme", correlation_id="trip", queue="mail")
    ways = [
        {},
        {"queue": "mail"},
        {"kind": "sync"},
        {"correlation_id": "trip"},
        {"tenant": "other"},
        {"event": ["job", "counters", "worker", "log"]},
    ]
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(streaming(spy, **way)) for way in ways]
        boss = await stack.enter_async_context(streaming(await api.client_for("super-admin"), tenant="acme"))
        changed = enqueued(db, tenant_id="acme", correlation_id="trip", queue="mail")
        claimed = {claim_as_other_worker(db, "mail", ["sync"])[0] for _ in range(2)}
        own = enqueued(db, tenant_id="other", correlation_id="trip", queue="mail")
        await boss.until(lambda s: "running" in s.statuses(changed) and "running" in s.statuses(theirs))
        for stream in streams:
            await stream.until(lambda s: s.statuses(own) and (s.of("counters") or s is None))
    assert claimed == {theirs, changed}
    for stream in streams:
        assert {job["tenant_id"] for job in stream.of("job")} == {"other"}
        assert not stream.of("worker")
        assert all(queue == {"queue": "mail", "ready": 1, "waiting": 0, "running": 0}
                   for counters in stream.of("counters") for queue in counters["queues"])  # fmt: skip
    for refused in ({"job": str(theirs)}, {"job": str(changed)}):
        answer = await spy.get("/api/v1/stream", params=refused)
        assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
    answer = await spy.get("/api/v1/stream", params={"tenant": "acme"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    emitter = await api.client_for("event-emitter", "acme")
    assert (await emitter.get("/api/v1/stream")).status_code == 403
    assert (await api.client().get("/api/v1/stream")).status_code == 401


async def test_who_looks_at_a_worker_sees_jobs_come_and_leave(api, db):
    acme = await api.client_for("tenant-viewer", "acme")
    job = enqueued(db, tenant_id="acme")
    worker = uuid4()
    async with streaming(acme, worker=worker) as stream, streaming(acme, worker=uuid4()) as other:
        db.execute(
            "select posthouse.claim(%s, gen_random_uuid(), '{default}', '{sync}', 1, interval '1 hour')",
            (worker,),
        )
        await stream.until(lambda s: s.statuses(job) == ["running"])
        expire_lease_and_rescue(db, job)
        await stream.until(lambda s: s.statuses(job) == ["running", "queued"])
    assert not other.of("job")


async def test_a_retry_of_a_finished_job_and_a_quick_failure_are_streamed(api, db):
    acme = await api.client_for("tenant-viewer", "acme")
    job = enqueued(db, tenant_id="acme")
    async with streaming(acme) as stream:
        cancel(db, job)
        await stream.until(lambda s: s.statuses(job) == ["canceled"])
        db.execute("select posthouse.reopen(%s)", (job,))
        await stream.until(lambda s: s.statuses(job) == ["canceled", "queued"])
        with db.transaction():  # comes and goes between two looks
            _, token = claim_as_other_worker(db, kinds=["sync"])
            db.execute(
                "select posthouse.settle(array[%s], array[%s], '{retry}', '{failed}', '{3600}', %s)",
                (job, token, ['{"type": "E", "message": "boom"}']),
            )
        await stream.until(lambda s: s.of("job")[-1]["attempt_count"] == 1)
    assert stream.of("job")[-1]["status"] == "queued"


async def test_a_stream_goes_on_where_it_stopped_at_another_server(api, db, settings):
    acme = await api.client_for("tenant-viewer", "acme")
    first, second, third = (enqueued(db, tenant_id="acme") for _ in range(3))
    enqueued(db, tenant_id="other")
    async with streaming(acme) as stream:
        cancel(db, first)
        await stream.until(lambda s: s.statuses(first) == ["canceled"])
        mark = stream.last_id
    cancel(db, second)
    async with RunningServer(settings, database=api.database) as elsewhere:
        client = elsewhere.client(await api.key("tenant-viewer", "acme"))
        async with streaming(client, last_id=mark) as again:
            await again.until(lambda s: s.statuses(second) == ["canceled"])
            cancel(db, third)
            await again.until(lambda s: "canceled" in s.statuses(third))
        for nonsense in ("1", "99999999999999999", "yesterday"):
            async with streaming(client, last_id=nonsense) as lost:
                await lost.until(lambda s: s.of("reset"))
    assert {job["tenant_id"] for job in again.of("job")} == {"acme"}


async def test_an_overflow_is_reported_only_to_its_tenant(api, db):
    acme, other = (
        await api.client_for("tenant-viewer", "acme"),
        await api.client_for("tenant-viewer", "other"),
    )
    async with streaming(acme) as stream, streaming(other) as calm:
        db.execute(
            "select posthouse.enqueue_many((select jsonb_agg(jsonb_build_object("
            "'kind', 'sync', 'tenant_id', 'acme')) from generate_series(1, 1500)))"
        )
        own = enqueued(db, tenant_id="other")
        event = (await stream.until(lambda s: s.of("overflow")))[0]
        await calm.until(lambda s: s.statuses(own))
    assert event["left_out"] == 1000
    assert len({job["id"] for job in stream.of("job")}) == 500
    assert not calm.of("overflow")


async def test_streams_end_with_their_key_and_with_the_server(api, db, settings):
    key, kept = await api.key("tenant-viewer", "acme"), await api.key("tenant-viewer", "acme")
    async with (
        RunningServer(settings, database=api.database) as there,
        streaming(there.client(key)) as lost,
        streaming(there.client(kept)) as stream,
    ):
        db.execute("select posthouse.revoke_key(%s)", (key.split("_")[1],))
        await lost.until(lambda s: s.ended)
        assert lost.of("closing") == [{"reason": "credential"}]
        assert not stream.ended
        stopping = asyncio.create_task(there.stop())
        await stream.until(lambda s: s.ended)
        # Told, and not cut off by uvicorn seconds later.
        assert stream.of("closing") == [{"reason": "shutdown"}]
        await stopping


async def test_there_is_room_for_so_many_streams(api, settings):
    settings = replace(settings, max_streams=3, max_streams_per_key=2)
    one, two = await api.key("tenant-viewer", "acme"), await api.key("tenant-viewer", "acme")
    async with RunningServer(settings, database=api.database) as server:
        first, second = server.client(one), server.client(two)
        async with streaming(first), streaming(first):
            answer = await first.get("/api/v1/stream")
            assert (answer.status_code, answer.json()["code"]) == (429, "too_many_streams")
            async with streaming(second):
                answer = await second.get("/api/v1/stream")
                assert (answer.status_code, answer.json()["code"]) == (503, "stream_limit_reached")
                assert answer.headers["retry-after"]
            await eventually_answers(second)


async def test_heartbeat_and_reconnect_time_of_a_stream_are_settings(api, settings):
    async with streaming(await api.client_for("tenant-viewer", "acme")) as stream:
        await stream.until(lambda s: s.retry == 1000)
    chosen = replace(settings, sse_heartbeat_seconds=0.1, sse_retry_seconds=3.0)
    async with RunningServer(chosen, database=api.database) as server:
        client = server.client(await api.key("tenant-viewer", "acme"))
        async with streaming(client) as stream:
            await stream.until(lambda s: s.retry == 3000 and s.comments >= 2)


async def eventually_answers(client):
    """A stream that was closed makes room for another."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            async with client.stream("GET", "/api/v1/stream") as response:
                if response.status_code == 200:
                    return
            await asyncio.sleep(0.02)


async def test_operators_see_workers_change(api, app):
    boss = await api.client_for("super-admin")

    @app.job()
    async def sync() -> None: ...

    async with streaming(boss, event="worker") as stream:
        async with running_worker(app) as worker:
            event = (await stream.until(lambda s: s.of("worker")))[0]
            assert (event["id"], event["status"]) == (str(worker.id), "idle")
        await stream.until(lambda s: s.of("worker")[-1]["status"] == "offline")


async def test_a_lost_connection_is_made_good(api, db):
    acme = await api.client_for("tenant-viewer", "acme")
    async with streaming(acme) as stream:
        with db.transaction():
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'posthouse stream' and datname = current_database()"
            )
            job = enqueued(db, tenant_id="acme")
            cancel(db, job)
        await stream.until(lambda s: s.statuses(job) == ["canceled"])


def enqueued(db, **fields):
    text = json.dumps([{"kind": "sync", **fields}])
    return db.execute("select id from posthouse.enqueue_many(%s::jsonb)", (text,)).fetchone()[0]
