"""What the read side says of jobs, queues, workers and definitions."""

from uuid import uuid4

import pytest

import posthouse
from posthouse import insights, testing
from posthouse.errors import InvalidJob, JobNotFound
from posthouse.storage.queries import query


async def test_jobs_are_listed_newest_first_and_in_pages(connection, enqueue):
    ids = [enqueue("mail") for _ in range(5)]

    first = await insights.list_jobs(connection, insights.JobFilter(limit=2))
    second = await insights.list_jobs(connection, insights.JobFilter(limit=2, after=first[-1].id))
    third = await insights.list_jobs(connection, insights.JobFilter(limit=2, after=second[-1].id))

    assert [job.id for job in (*first, *second, *third)] == ids[::-1]


async def test_a_page_is_in_order_wherever_its_jobs_stand(app, connection, enqueue):
    @app.job()
    async def mail() -> None: ...

    ended = enqueue("mail")
    await testing.drain(app)
    later = enqueue("other", delay="1 hour")
    ready = enqueue("other")

    listed = await insights.list_jobs(connection)

    assert [(job.id, job.status, job.job_table) for job in listed] == [
        (ready, "queued", "ready"),
        (later, "queued", "waiting"),
        (ended, "succeeded", "history"),
    ]


@pytest.mark.parametrize(
    ("chosen", "options"),
    [
        ({"kind": "wanted"}, {"kind": "wanted"}),
        ({"queue": "slow"}, {"queue": "slow"}),
        ({"tenant": "acme"}, {"tenant_id": "acme"}),
        ({"correlation": "run-7"}, {"correlation_id": "run-7"}),
        ({"subject": "video-1"}, {"subject": "video-1"}),
    ],
)
async def test_each_filter_finds_only_its_jobs(connection, enqueue, chosen, options):
    enqueue("mail")
    wanted = enqueue(**{"kind": "mail", **options})

    listed = await insights.list_jobs(connection, insights.JobFilter(**chosen))

    assert [job.id for job in listed] == [wanted]


async def test_several_statuses_may_be_asked_for(connection, db, enqueue):
    canceled, queued = enqueue("mail"), enqueue("mail")
    db.execute("select posthouse.cancel(%s)", (canceled,))

    both = insights.JobFilter(statuses=["canceled", "queued"])
    only = insights.JobFilter(statuses=["canceled"])

    assert [job.id for job in await insights.list_jobs(connection, both)] == [queued, canceled]
    assert [job.id for job in await insights.list_jobs(connection, only)] == [canceled]


@pytest.mark.parametrize("wrong", [{"statuses": ["done"]}, {"limit": 0}, {"limit": 1001}])
def test_a_filter_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidJob):
        insights.JobFilter(**wrong)


async def test_a_job_shows_all_that_was_given_and_what_came_of_it(app, connection):
    @app.job()
    async def add(a: int, b: int) -> int:
        return a + b

    handle = await add.using(correlation_id="run-1", dedupe_key="sum").enqueue(a=2, b=3)
    await testing.drain(app)

    job = await insights.get_job(connection, handle.id)

    assert (job.status, job.payload, job.result) == ("succeeded", {"a": 2, "b": 3}, 5)
    assert (job.correlation_id, job.dedupe_key, job.attempt_count) == ("run-1", "sum", 1)


async def test_a_large_payload_is_shown_whole(connection, enqueue):
    text = "x" * 5000
    job = await insights.get_job(connection, enqueue("mail", payload=f'{{"text": "{text}"}}'))
    assert job.payload == {"text": text}


async def test_a_job_of_another_tenant_is_not_there(connection, enqueue):
    job_id = enqueue("mail", tenant_id="acme")
    assert (await insights.get_job(connection, job_id, tenant="acme")).id == job_id
    with pytest.raises(JobNotFound):
        await insights.get_job(connection, job_id, tenant="other")
    with pytest.raises(JobNotFound):
        await insights.list_attempts(connection, job_id, tenant="other")


async def test_every_attempt_is_told_with_its_error(app, connection):
    @app.job(retry=posthouse.Retry("1h"))
    async def flaky(job: posthouse.Job) -> None:
        if job.attempt == 1:
            raise ValueError("not yet")

    handle = await flaky.enqueue()
    async with testing.clock(app) as clock:
        await testing.drain(app)
        await clock.advance("2h")
        await testing.drain(app)

    first, second = await insights.list_attempts(connection, handle.id)

    assert (first.outcome, first.error_type, first.error_message) == ("failed", "ValueError", "not yet")
    assert "raise ValueError" in first.traceback
    assert (second.attempt, second.outcome, second.error_type) == (2, "succeeded", None)


async def test_a_job_that_has_not_started_has_no_attempts_and_an_unknown_one_is_an_error(connection, enqueue):
    assert await insights.list_attempts(connection, enqueue("mail")) == []
    with pytest.raises(JobNotFound):
        await insights.list_attempts(connection, uuid4())


async def test_queues_tell_what_is_in_them_and_who_serves_them(app, connection, db, enqueue, fleet):
    for _ in range(3):
        enqueue("mail", queue="post")
    enqueue("mail", queue="post", delay="1 hour")
    enqueue("mail", queue="post", depends_on=[enqueue("mail", queue="other")])
    fleet.claim(fleet.register(queues=["post"]), queue="post")
    async with testing.clock(app) as clock:
        await clock.advance("10s")
        found = {queue.name: queue for queue in await insights.list_queues(connection)}

    post = found["post"]
    assert (post.ready, post.scheduled, post.blocked, post.running, post.workers) == (2, 1, 1, 1, 1)
    assert 10 <= post.oldest_ready_seconds < 60
    assert (found["other"].ready, found["other"].workers) == (1, 0)


async def test_all_overviews_count_the_same_jobs(connection, enqueue, fleet):
    for tenant, queue in (("acme", "post"), ("acme", "print"), ("globex", "post")):
        for options in ({}, {"delay": "1 hour"}, {"depends_on": [enqueue("mail", tenant_id="other")]}):
            enqueue("mail", tenant_id=tenant, queue=queue, **options)
    fleet.claim(fleet.register(queues=["post"]), queue="post")

    def counts(item):
        return (item.ready, item.scheduled, item.blocked, item.running)

    exact = await insights.list_queues(connection)
    shown = await insights.overview(connection)
    by_tenant = await insights.queue_counts(connection, by_tenant=True)

    assert {queue.name: counts(queue) for queue in exact} == {
        "default": (3, 0, 0, 0),
        "post": (1, 2, 2, 1),
        "print": (1, 1, 1, 0),
    }
    assert [counts(queue) for queue in shown.queues] == [counts(queue) for queue in exact]
    assert [counts(await insights.get_queue(connection, queue.name)) for queue in exact] == [
        counts(queue) for queue in exact
    ]
    assert sum(item.ready + item.waiting + item.running for item in by_tenant) == 12
    (printed,) = await insights.queue_counts(connection, tenant="acme", queue="print", most=10)
    assert counts(printed) == (1, 1, 1, 0)


async def test_a_queue_that_a_definition_names_is_shown_while_it_is_empty(app, connection):
    @app.job(queue="quiet")
    async def rare() -> None: ...

    await testing.drain(app)
    found = {queue.name: queue for queue in await insights.list_queues(connection)}
    assert found["quiet"].ready == 0


async def test_a_worker_is_idle_active_busy_or_offline(app, connection, db, enqueue, fleet):
    def job():
        return enqueue("mail")

    idle, active, busy, stopped = (fleet.register(name=name, concurrency=2) for name in ("a", "b", "c", "d"))
    for worker in (active, busy, busy):
        job()
        fleet.claim(worker)
    db.execute("select posthouse.sign_off(%s)", (stopped,))

    found = {worker.id: worker for worker in await insights.workers(connection)}

    assert {key: worker.status for key, worker in found.items()} == {
        idle: "idle",
        active: "active",
        busy: "busy",
        stopped: "offline",
    }
    assert not found[stopped].lost


async def test_as_many_jobs_of_a_worker_are_shown_as_one_asks_for(app, connection, enqueue, fleet):
    worker = fleet.register(concurrency=3)
    for _ in range(3):
        enqueue("mail")
        fleet.claim(worker)
    (found,) = await insights.workers(connection, jobs=2)
    assert (len(found.jobs), found.running) == (2, 3)


async def test_a_worker_without_heartbeat_is_offline_and_died(app, connection, fleet):
    worker = fleet.register()
    async with testing.clock(app) as clock:
        await clock.advance("31s")
        (found,) = await insights.workers(connection, offline_after=30)
    assert (found.id, found.status, found.lost) == (worker, "offline", True)


async def test_workers_that_left_long_ago_are_left_out_unless_asked_for(app, connection, db, fleet):
    db.execute("select posthouse.sign_off(%s)", (fleet.register(),))
    async with testing.clock(app) as clock:
        await clock.advance("2d")
        assert await insights.workers(connection) == []
        assert len(await insights.workers(connection, offline_within=None)) == 1


async def test_definitions_are_what_workers_announced(app, connection):
    @app.job(queue="mail", priority="high", timeout="30s", retry=posthouse.Retry("1m"))
    async def welcome(user_id: int) -> None:
        """Writes to a new user."""

    await testing.drain(app)
    (found,) = await insights.definitions(connection)

    assert (found.key, found.queue, found.priority, found.max_attempts) == ("welcome", "mail", 50, 2)
    assert (found.timeout_seconds, found.description) == (30, "Writes to a new user.")
    assert found.schema["required"] == ["user_id"]


async def test_the_overview_counts_what_is_queued_and_running(connection, enqueue, fleet):
    for _ in range(2):
        enqueue("mail")
    enqueue("mail", delay="1 hour")
    fleet.claim(fleet.register())
    found = await insights.overview(connection)
    assert (found.ready, found.scheduled, found.running, found.workers.workers) == (1, 1, 1, 1)


async def test_a_page_is_read_from_the_indexes_however_long_the_history(connection, db):
    db.execute(
        "select count(*) from posthouse.enqueue_many("
        '(select jsonb_agg(\'{"kind": "mail"}\'::jsonb) from generate_series(1, 20000)))'
    )
    db.execute("select posthouse.finish_queued(array(select id from posthouse.ready), 'canceled', '{}')")
    db.execute("vacuum analyze")

    plan = db.execute(
        "explain (analyze, format json) " + query("jobs_list_all"), insights.JobFilter().parameters(None)
    ).fetchone()[0]

    assert _rows_read(plan[0]["Plan"]) < 1000


def _rows_read(node):
    below = sum(_rows_read(child) for child in node.get("Plans", ()))
    return below + node["Actual Rows"] * node["Actual Loops"]
