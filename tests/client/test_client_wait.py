"""Waiting for the end of a job."""

import asyncio
from uuid import uuid4

import pytest

from posthouse import Client, JobFailed
from posthouse.client.waiter import FinishListener
from posthouse.errors import ClientClosed, DatabaseUnavailable, JobNotFound, WaitTimeout
from support.waiting import eventually_sync


async def test_the_result_of_a_job_that_has_ended_is_there_at_once(client, engine):
    handle = await client.enqueue("task")
    engine.succeed(engine.claim_one(), result={"answer": [42, None]})
    assert await client.wait(handle.id, "60s") == {"answer": [42, None]}


async def test_the_result_comes_when_the_job_ends(client, engine):
    handle = await client.enqueue("task")
    waiting = asyncio.ensure_future(client.wait(handle.id, "30s"))
    await asyncio.sleep(0)
    engine.succeed(engine.claim_one(), result="done")
    assert await waiting == "done"


async def test_a_job_without_a_result_gives_none(client, engine):
    handle = await client.enqueue("task")
    engine.succeed(engine.claim_one())
    assert await client.wait(handle.id, "60s") is None


ENDINGS = {"fail": "failed", "exhaust": "dead_letter", "cancel": "canceled"}


@pytest.mark.parametrize(("event", "status"), ENDINGS.items())
async def test_a_job_that_ends_without_success_raises_with_its_error(client, engine, event, status):
    handle = await client.enqueue("task")
    engine.settle(
        engine.claim_one(), event, "failed", error={"type": "ValueError", "message": "no such user"}
    )
    with pytest.raises(JobFailed) as caught:
        await client.wait(handle.id, "60s")
    for part in (str(handle.id), status, "ValueError", "no such user"):
        assert part in str(caught.value)


async def test_a_job_that_is_retried_is_waited_for(client, engine):
    handle = await client.enqueue("task")
    waiting = asyncio.ensure_future(client.wait(handle.id, "30s"))
    engine.retry(engine.claim_one())
    await asyncio.sleep(0)
    engine.succeed(engine.claim_one(), result=2)
    assert await waiting == 2


async def test_waiting_has_an_end(client):
    handle = await client.enqueue("task")
    with pytest.raises(WaitTimeout) as caught:
        await client.wait(handle.id, "50ms")
    assert "queued" in str(caught.value)
    assert "0.05 s" in str(caught.value)


async def test_a_timeout_of_nothing_looks_once(client, engine):
    handle = await client.enqueue("task")
    with pytest.raises(WaitTimeout):
        await client.wait(handle.id, 0)
    engine.succeed(engine.claim_one(), result=1)
    assert await client.wait(handle.id, 0) == 1


async def test_a_job_that_is_not_there_is_not_found(client):
    with pytest.raises(JobNotFound):
        await client.wait(uuid4(), "60s")


async def test_a_handle_waits_for_its_job(client, engine):
    handle = await client.enqueue("task")
    engine.succeed(engine.claim_one(), result=3)
    is_async = not hasattr(client, "client")
    answer = handle.wait("60s") if is_async else asyncio.to_thread(handle.wait, "60s")
    assert await answer == 3


async def test_many_waiters_at_once_all_hear(client, engine):
    handles = [await client.enqueue("task") for _ in range(20)]
    waiting = [asyncio.ensure_future(client.wait(handle.id, "30s")) for handle in handles for _ in range(3)]
    await asyncio.sleep(0)
    while jobs := engine.claim(7):
        for job in jobs:
            engine.succeed(job, result=str(job.id))
    assert await asyncio.gather(*waiting) == [str(handle.id) for handle in handles for _ in range(3)]


async def test_many_waiters_share_one_listener(url, engine):
    async with Client(url) as client:
        handle = await client.enqueue("task")
        waiting = [asyncio.ensure_future(client.wait(handle.id, "30s")) for _ in range(10)]
        await until(lambda: client._listener is not None and client._listener.is_listening)
        listeners = [task for task in asyncio.all_tasks() if "NotificationListener.run" in str(task)]
        engine.succeed(engine.claim_one())
        await asyncio.gather(*waiting)
    assert len(listeners) == 1


async def test_waiting_goes_on_when_the_wire_breaks(proxied, proxy, engine):
    handle = await proxied.enqueue("task")
    waiting = asyncio.ensure_future(proxied.wait(handle.id, "30s"))
    connected = proxy.connections
    while proxy.connections < connected:
        await asyncio.sleep(0.01)
    for _ in range(5):
        proxy.disconnect_all()
        await asyncio.sleep(0.02)
    engine.succeed(engine.claim_one(), result="through it all")
    assert await waiting == "through it all"


@pytest.fixture
async def listening(url, proxy):
    """A FinishListener that hears through a wire that can be broken."""
    endings = FinishListener(proxy.url_for(url))
    yield endings
    await endings.close()


async def was_notified(ended):
    """Whether it is woken, by a notification and not by its own pause."""
    await asyncio.wait_for(ended._event.wait(), 20)
    return True


async def until(condition):
    await asyncio.to_thread(eventually_sync, condition)


async def test_a_waiter_is_notified_when_the_job_finishes(listening, engine):
    job = engine.start()
    async with listening.waiting_for(job.id) as ended:
        await until(lambda: listening.is_listening)
        engine.succeed(job)
        assert await was_notified(ended)


async def test_each_waiter_is_notified_when_a_batch_finishes(listening, engine):
    engine.enqueue_many(*({"kind": "task"} for _ in range(500)))
    jobs = engine.claim(500)
    async with listening.waiting_for(jobs[3].id) as first, listening.waiting_for(jobs[450].id) as last:
        await until(lambda: listening.is_listening)
        engine.succeed(*jobs)
        assert await was_notified(first)
        assert await was_notified(last)


async def test_a_listener_that_lost_its_connection_listens_again(listening, proxy, engine):
    job = engine.start()
    async with listening.waiting_for(job.id) as ended:
        await until(lambda: listening.is_listening)
        before = proxy.accepted
        proxy.disconnect_all()
        await until(lambda: proxy.accepted > before and listening.is_listening)
        await until(lambda: engine.value(
            "select count(*) from pg_stat_activity where application_name = 'posthouse endings' "
            "and datname = current_database() and state = 'idle'"
        ) == 1)  # fmt: skip
        engine.succeed(job)
        assert await was_notified(ended)


async def test_no_notification_is_sent_without_a_waiting_client(engine):
    with engine.new_connection() as listener:
        listener.connection.execute("listen posthouse_ended")
        engine.succeed(engine.start())
        engine.connection.execute("notify posthouse_ended, 'the end of the test'")
        [note] = listener.connection.notifies(timeout=60, stop_after=1)
    assert note.payload == "the end of the test"


async def test_a_waiter_that_gives_up_leaves_nothing_behind(client, engine):
    handle = await client.enqueue("task")
    with pytest.raises(WaitTimeout):
        await client.wait(handle.id, 0.01)
    endings = getattr(client, "_listener", None)
    assert not endings or not endings._waiters


async def test_a_wait_times_out_while_postgres_is_unreachable(proxied, proxy):
    handle = await proxied.enqueue("task")
    proxy.refuse_connections()
    with pytest.raises(DatabaseUnavailable):
        await asyncio.wait_for(proxied.wait(handle.id, "300ms"), 20)


async def test_a_pending_wait_raises_when_the_client_is_closed(url):
    client = Client(url)
    handle = await client.enqueue("task")
    waiting = asyncio.ensure_future(client.wait(handle.id))
    await until(lambda: client._listener is not None and client._listener.is_listening)
    await client.close()
    with pytest.raises(ClientClosed):
        await asyncio.wait_for(waiting, 20)
