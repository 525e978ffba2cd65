"""A worker as a whole: what it takes, in which order, how it is woken, how it stops."""

import asyncio
import threading
import time

import pytest

import posthouse
from posthouse import testing
from posthouse.worker.shutdown import ShutdownSignals
from support.waiting import eventually
from support.workers import attempt_outcomes, job_row, job_status, running_worker, status_counts


async def test_lower_priorities_run_first_and_equals_in_order(app):
    order = []

    @app.job()
    async def work(name: str):
        order.append(name)

    for name, priority in [
        ("low", "low"), ("n1", "normal"), ("urgent", "urgent"), ("n2", "normal"), ("high", 50), ("n3", 100),
    ]:  # fmt: skip
        await work.using(priority=priority).enqueue(name=name)
    async with running_worker(app, concurrency=1):
        await eventually(lambda: len(order) == 6)
    assert order == ["urgent", "high", "n1", "n2", "n3", "low"]


async def test_no_more_handlers_run_at_once_than_allowed(app):
    running, most, lock = 0, 0, threading.Lock()

    def enter():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)

    def leave():
        nonlocal running
        with lock:
            running -= 1

    @app.job()
    async def work():
        enter()
        await asyncio.sleep(0.002)
        leave()

    @app.job()
    def work_thread():
        enter()
        time.sleep(0.002)
        leave()

    await app.client.enqueue_many([job.request({}) for job in (work, work_thread) for _ in range(100)])
    async with running_worker(app, concurrency=7) as worker:
        await eventually(lambda: worker.executor.finished == 200)
    assert most == 7


async def test_concurrency_one_runs_one_at_a_time_however_short_the_jobs(app, db):
    seen = []

    @app.job()
    async def work(number: int):
        seen.append(("in", number))
        await asyncio.sleep(0)
        seen.append(("out", number))

    await app.client.enqueue_many([work.request({"number": number}) for number in range(300)])
    async with running_worker(app, concurrency=1):
        await eventually(lambda: status_counts(db) == {"succeeded": 300})
    assert seen == [(step, number) for number in range(300) for step in ("in", "out")]


async def test_a_burst_of_short_jobs_before_long_ones_does_not_stall_the_worker(app, db):
    """The measure of how much to claim ahead falls to nothing while claimed jobs wait."""
    go_on = asyncio.Event()

    @app.job()
    async def work(number: int):
        if number >= 2000:
            await go_on.wait()

    await app.client.enqueue_many([work.request({"number": number}) for number in range(2050)])
    async with running_worker(app, concurrency=10) as worker:
        await eventually(lambda: status_counts(db).get("succeeded") == 2000)
        await eventually(lambda: worker.executor.idle_slots == 0)
        go_on.set()
        await eventually(lambda: status_counts(db) == {"succeeded": 2050})


async def test_two_workers_share_the_work_and_no_job_runs_twice(app, db):
    ran = []
    both_work = asyncio.Event()

    @app.job()
    async def work(job: posthouse.Job, number: int):
        ran.append(number)
        if len(ran) > 5:  # of which one worker alone would run five at most
            both_work.set()
        await both_work.wait()

    await app.client.enqueue_many([work.request({"number": number}) for number in range(200)])
    async with running_worker(app, concurrency=5), running_worker(app, concurrency=5):
        await eventually(lambda: status_counts(db) == {"succeeded": 200})
    assert sorted(ran) == list(range(200))
    shares = db.execute("select count(*) from posthouse.history group by worker_id").fetchall()
    assert len(shares) == 2


async def test_a_worker_takes_only_from_its_queues(app, db):
    @app.job(queue="a")
    async def work():
        pass

    mine = [await work.enqueue() for _ in range(3)]
    others = [await work.using(queue="b").enqueue() for _ in range(3)]
    async with running_worker(app, queues=["a"]) as worker:
        await eventually(lambda: {job_status(db, handle.id) for handle in mine} == {"succeeded"})
        beats = worker.heartbeat.beats
        await eventually(lambda: worker.heartbeat.beats > beats + 1)
    assert {job_status(db, handle.id) for handle in others} == {"queued"}
    async with running_worker(app, queues=["b", "c"]):
        await eventually(lambda: status_counts(db) == {"succeeded": 6})


async def test_a_worker_serves_the_queues_of_its_jobs_unless_told_otherwise(app):
    app.job("one", queue="a")(lambda: None)
    app.job("two", queue="b")(lambda: None)
    assert (await app.worker()).queues == ["a", "b"]
    assert (await app.worker(queues=["c"])).queues == ["c"]


async def test_an_idle_worker_is_woken_by_an_enqueue(app):
    @app.job()
    async def work():
        return "done"

    # Without LISTEN it would look again after ten minutes.
    async with running_worker(app, poll_seconds=600, keeper=False) as worker:
        await eventually(lambda: worker.fetcher._wants_wakeup)
        worker.fetcher._pause = 600
        for _ in range(3):
            handle = await work.enqueue()
            assert await handle.wait("20s") == "done"
            worker.fetcher._pause = 600


async def test_a_worker_that_is_notified_of_jobs_does_not_poll_after_each(app):
    @app.job()
    async def work():
        return "done"

    async with running_worker(app, poll_seconds=600, keeper=False) as worker:
        fetcher = worker.fetcher
        await eventually(lambda: fetcher._wants_wakeup)
        fetcher._pause = 600
        fetcher.claimed.clear()
        fetcher.wake()  # ends the short pause that it may be in: a poll at its end could find the job
        await fetcher.claimed.wait()
        await fetcher.resting.wait()
        handle = await work.enqueue()
        assert await handle.wait("20s") == "done"
        await fetcher.resting.wait()
        assert fetcher._pause == 600


async def test_a_worker_that_misses_notifications_polls_soon_after_it_found_a_job(app):
    @app.job()
    async def work():
        return "done"

    async with running_worker(app, poll_seconds=600, keeper=False) as worker:
        await eventually(lambda: worker.fetcher._wants_wakeup)
        await worker.fetcher.resting.wait()
        worker.fetcher.wake = lambda: None
        worker.fetcher._pause = 600
        handle = await work.enqueue()
        worker.fetcher._poll()
        assert await handle.wait("20s") == "done"
        assert worker.fetcher._pause < 600


async def test_a_worker_polls_soon_after_it_requests_a_wakeup(app):
    @app.job()
    async def work():
        return "done"

    async with running_worker(app, poll_seconds=600, keeper=False) as worker:
        await eventually(lambda: worker.fetcher._wants_wakeup)
        worker.fetcher._pause = 600
        worker.fetcher.on_listening()  # an enqueue before the new request does not notify
        await eventually(lambda: worker.fetcher._wants_wakeup)
        assert worker.fetcher._pause < 600


async def test_an_idle_worker_is_woken_when_a_job_becomes_due(app):
    @app.job()
    async def work():
        return "done"

    async with running_worker(app, poll_seconds=600) as worker:
        await eventually(lambda: worker.fetcher._wants_wakeup)
        worker.fetcher._pause = 600
        handle = await work.using(delay="300ms").enqueue()
        assert await handle.wait("20s") == "done"


async def test_polling_alone_finds_the_work(app):
    @app.job()
    async def work():
        return "done"

    async with running_worker(app, poll_seconds=0.05) as worker:
        worker.listener._listener.is_supported = False
        worker.fetcher.can_receive_wakeups = False
        for task in worker._tasks:
            if task.get_coro().__qualname__.endswith("_guarded") and task is worker._tasks[-1]:
                task.cancel()  # the listener
        handle = await work.enqueue()
        assert await handle.wait("20s") == "done"


async def test_a_listener_whose_connection_dies_comes_back(app, db):
    @app.job()
    async def work():
        return "done"

    def listeners():
        return db.execute(
            "select pid from pg_stat_activity where application_name = 'posthouse listener' "
            "and query like 'listen%' and datname = current_database()"
        ).fetchall()

    async with running_worker(app, poll_seconds=600, keeper=False) as worker:
        ((old,),) = await eventually(listeners)
        db.execute("select pg_terminate_backend(%s)", (old,))
        await eventually(lambda: listeners() not in ([], [(old,)]))
        await eventually(lambda: worker.fetcher._wants_wakeup)
        worker.fetcher._pause = 600
        assert await (await work.enqueue()).wait("20s") == "done"


async def test_every_connection_of_a_worker_may_die(app, db):
    @app.job()
    async def work():
        return "done"

    # The grace is for workers that lost their connection as the keeper did.
    async with running_worker(app, poll_seconds=0.2, rescue_grace_seconds=60):
        for _ in range(3):
            assert await (await work.enqueue()).wait("20s") == "done"
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
        assert await (await work.enqueue()).wait("20s") == "done"
    assert db.execute("select sum(crashes) from posthouse.history").fetchone() == (0,)


async def test_a_job_committed_late_is_not_overlooked(app, db, settings):
    """Its place in the line is before those that were claimed meanwhile."""
    import psycopg  # noqa: PLC0415

    @app.job()
    async def work(number: int):
        return number

    async with await psycopg.AsyncConnection.connect(settings.database_url) as late:
        slow = await work.enqueue(number=1, connection=late)
        async with running_worker(app, poll_seconds=0.05):
            for number in range(2, 5):
                quick = await work.enqueue(number=number)
                assert await quick.wait("20s") == number
            await late.commit()
            assert await slow.wait("20s") == 1


async def test_a_job_committed_late_is_found_in_a_lane_that_never_runs_empty(app, settings):
    import psycopg  # noqa: PLC0415

    ran = set()

    @app.job()
    async def work(number: int):
        ran.add(number)
        if 0 not in ran:
            await work.enqueue(number=number + 1_000)

    async with (
        await psycopg.AsyncConnection.connect(settings.database_url) as late,
        running_worker(app, concurrency=1),
    ):
        await work.enqueue(number=0, connection=late)
        await app.client.enqueue_many([work.request({"number": number}) for number in range(1, 301)])
        await eventually(lambda: len(ran) > 10)
        await late.commit()
        await eventually(lambda: 0 in ran)


async def test_a_stopping_worker_finishes_what_runs_and_claims_nothing_more(app, db):
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job()
    async def work(number: int):
        started.set()
        await go_on.wait()
        return number

    first = await work.enqueue(number=1)
    async with running_worker(app) as worker:
        await asyncio.wait_for(started.wait(), 20)
        stopping = asyncio.ensure_future(worker.stop(20))
        await asyncio.sleep(0)
        later = await work.enqueue(number=2)
        go_on.set()
        await stopping
    assert job_row(db, first.id)["result"] == 1
    assert job_status(db, later.id) == "queued"
    assert job_row(db, later.id)["attempt_count"] == 0
    assert db.execute("select stopped_at is not null from posthouse.workers").fetchall() == [(True,)]


@pytest.mark.parametrize("in_thread", [False, True])
async def test_what_outlasts_the_drain_is_released_without_spending_an_attempt(app, db, in_thread):
    canceled, running = [], threading.Semaphore(0)

    async def work_async():
        running.release()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            canceled.append(1)
            raise

    def work_thread():
        running.release()
        try:
            while True:
                time.sleep(0.01)
        except posthouse.Cancel:
            canceled.append(1)
            raise

    work = app.job("work", max_attempts=1)(work_thread if in_thread else work_async)
    handles = [await work.enqueue() for _ in range(5)]
    async with running_worker(app, drain=0.1, concurrency=3):
        for _ in range(3):
            await asyncio.to_thread(running.acquire, timeout=20)
    await eventually(lambda: len(canceled) == 3)
    assert status_counts(db) == {"queued": 5}
    assert {job_row(db, handle.id)["attempt_count"] for handle in handles} == {0}
    assert {job_row(db, handle.id)["crashes"] for handle in handles} == {0}
    outcomes = [attempt for handle in handles for attempt in attempt_outcomes(db, handle.id)]
    assert outcomes.count((1, "released")) == len(outcomes) >= 3


async def test_released_jobs_run_elsewhere_before_newer_ones(app, db):
    order, started = [], asyncio.Event()

    @app.job()
    async def work(number: int):
        order.append(number)
        started.set()
        if len(order) == 1:
            await asyncio.sleep(3600)

    for number in range(3):
        await work.enqueue(number=number)
    async with running_worker(app, concurrency=1, drain=0):
        await asyncio.wait_for(started.wait(), 20)
    async with running_worker(app, concurrency=1):
        await eventually(lambda: status_counts(db) == {"succeeded": 3})
    assert order == [0, 0, 1, 2]


async def test_a_handler_that_finishes_when_told_to_stop_has_succeeded(app, db):
    started = asyncio.Event()

    @app.job()
    async def work():
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "wrapped up"

    handle = await work.enqueue()
    async with running_worker(app, drain=0):
        await asyncio.wait_for(started.wait(), 20)
    assert (job_status(db, handle.id), job_row(db, handle.id)["result"]) == ("succeeded", "wrapped up")


async def test_a_second_signal_releases_what_still_runs(app, db):
    started = asyncio.Event()

    @app.job()
    async def work():
        started.set()
        await asyncio.sleep(3600)

    handle = await work.enqueue()
    async with running_worker(app) as worker:
        await asyncio.wait_for(started.wait(), 20)
        stop = ShutdownSignals(asyncio.get_running_loop())
        stop._note()
        await stop.wait(worker.failed)
        draining = asyncio.ensure_future(worker.stop(3600))
        again = asyncio.ensure_future(stop.wait_for_drain(draining, worker.release_jobs))
        await asyncio.sleep(0)
        assert job_status(db, handle.id) == "running"
        stop._note()
        await asyncio.wait_for(again, 20)
    job = job_row(db, handle.id)
    assert (job["status"], job["attempt_count"]) == ("queued", 0)
    assert attempt_outcomes(db, handle.id) == [(1, "released")]


async def test_a_claim_under_way_when_the_worker_stops_is_given_back(app, db, settings):
    """The reply comes after the stop: nothing of it may stay leased to a worker that is gone."""
    import psycopg  # noqa: PLC0415

    @app.job()
    async def work():
        pass

    async with running_worker(app, poll_seconds=0.05, keeper=False) as worker:
        await eventually(lambda: worker.heartbeat.beats >= 1)
        async with await psycopg.AsyncConnection.connect(settings.database_url) as holder:
            # A claim that finds jobs has to wait for this lock.
            await holder.execute("lock table posthouse.running in share mode")
            handles = [await work.enqueue() for _ in range(20)]
            await eventually(
                lambda: (
                    db.execute(
                        "select count(*) from pg_stat_activity where datname = current_database() "
                        "and application_name = 'posthouse claims' and wait_event_type = 'Lock'"
                    ).fetchone()
                    == (1,)
                )
            )
            stopping = asyncio.ensure_future(worker.stop(0))
            await asyncio.sleep(0)
            await holder.commit()
        await stopping
    assert status_counts(db) == {"queued": 20}
    assert {job_row(db, handle.id)["attempt_count"] for handle in handles} == {0}


async def test_a_stopped_worker_leaves_nothing_behind(app, db):
    @app.job()
    def work(job: posthouse.Job):
        with job.commit():
            pass

    before = set(threading.enumerate())
    await work.enqueue()
    async with running_worker(app):
        await eventually(lambda: status_counts(db) == {"succeeded": 1})
    await app.close()
    await eventually(
        lambda: (
            db.execute(
                "select count(*) from pg_stat_activity where datname = current_database() "
                "and application_name like 'posthouse%'"
            ).fetchone()
            == (0,)
        )
    )
    names = [thread.name for thread in set(threading.enumerate()) - before]
    assert not [name for name in names if "heartbeat" in name]


async def test_a_worker_announces_its_kinds_and_itself(app, db):
    @app.job(queue="mail", priority="high", timeout="30s", max_attempts=7)
    async def welcome(user_id: int):
        """Greets."""

    async with running_worker(app, queues=["mail", "other"], concurrency=9):
        (worker,) = db.execute(
            "select queues, kinds, concurrency, pid > 0, stopped_at from posthouse.workers"
        ).fetchall()
        (known,) = db.execute(
            "select key, description, queue, priority, max_attempts, timeout_seconds, "
            "schema -> 'properties' -> 'user_id' ->> 'type' from posthouse.definitions"
        ).fetchall()
    assert worker == (["mail", "other"], ["welcome"], 9, True, None)
    assert known == ("welcome", "Greets.", "mail", 50, 7, 30.0, "integer")


async def test_jobs_enqueued_by_name_take_the_announced_defaults(app, db):
    @app.job(queue="mail", priority="low", max_attempts=7)
    async def welcome():
        pass

    async with running_worker(app):
        pass
    handle = await app.client.enqueue("welcome", {})
    job = job_row(db, handle.id)
    assert (job["queue"], job["priority"], job["max_attempts"]) == ("mail", 200, 7)


async def test_plain_sql_is_enough_to_enqueue(app, db):
    seen = []

    @app.job()
    async def work(number: int):
        seen.append(number)

    db.execute("select posthouse.enqueue('work', '{\"number\": 3}')")
    assert await testing.drain(app) == {"succeeded": 1}
    assert seen == [3]


async def test_names_with_quotes_backslashes_and_commas_are_served_like_others(app, db):
    odd = 'a "b" \\c\\, {d}'

    @app.job(kind=odd, queue=odd)
    async def work():
        pass

    jobs = [await work.using(tenant=tenant).enqueue() for tenant in (odd, "plain", odd)]
    async with running_worker(app):
        for job in jobs:
            await job.wait("20s")
        again = await work.using(tenant=odd).enqueue()  # by now the worker names the tenants that it served
        await again.wait("20s")
    assert status_counts(db) == {"succeeded": 4}


async def test_a_worker_renews_a_lease_for_its_duration_and_no_longer(app, db):
    """A lease that reached further would delay the rescue of a lost job."""
    started, enough = asyncio.Event(), asyncio.Event()

    @app.job()
    async def hold() -> None:
        started.set()
        await enough.wait()

    async with running_worker(app, lease_seconds=20.0, heartbeat_seconds=0.05) as worker:
        await hold.enqueue()
        await asyncio.wait_for(started.wait(), 60)
        worker.heartbeat.beat_now()
        beats = worker.heartbeat.beats
        await eventually(lambda: worker.heartbeat.beats > beats + 1, what="two heartbeats")
        left = "select lease_expires_at - posthouse.now() between '1 s' and '20 s' from posthouse.running"
        assert db.execute(left).fetchone() == (True,)
        enough.set()
