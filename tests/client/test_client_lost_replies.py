"""The connection breaks before the answer comes: the client asks again, and there is one job."""

import asyncio
from uuid import uuid4

import pytest

from posthouse import Request

SPECIAL = {
    "plain": {},
    "keyed": {"dedupe_key": "k"},
    "rejecting": {"dedupe_key": "k", "on_duplicate": "reject"},
    "ordered": {"order_key": "o"},
    "late": {"delay": "1h"},
    "large": {"payload": {"text": "y" * 5_000}},
    "all": {"dedupe_key": "k", "order_key": "o", "delay": "1h"},
}


@pytest.mark.parametrize("options", SPECIAL.values(), ids=SPECIAL)
async def test_one_job_whose_reply_was_lost_is_one_job(proxied, proxy, engine, options):
    marker = uuid4().hex
    proxy.drop_reply_to(marker.encode())
    handle = await proxied.submit(Request(kind="task", subject=marker, **options))
    assert proxy.swallowed == 1
    assert handle.outcome == "repeated"
    assert [row.id for row in engine.rows("select id from posthouse.jobs")] == [handle.id]


async def test_a_job_whose_reply_was_lost_and_that_ran_meanwhile_is_one_job(proxied, proxy, engine):
    marker = uuid4().hex
    proxy.drop_reply_to(marker.encode())
    sending = asyncio.ensure_future(proxied.enqueue("task", subject=marker, dedupe_key="k"))
    while not (jobs := await asyncio.to_thread(engine.claim)):
        await asyncio.sleep(0)
    engine.succeed(*jobs)
    handle = await sending
    assert (handle.id, handle.outcome) == (jobs[0].id, "repeated")
    assert engine.count("jobs") == 1


async def test_many_lost_replies_in_a_row_make_one_job(proxied, proxy, engine):
    marker = uuid4().hex
    for _ in range(4):
        proxy.drop_reply_to(marker.encode())
    await proxied.enqueue("task", subject=marker)
    assert proxy.swallowed == 4
    assert engine.count("jobs") == 1


async def test_many_jobs_with_a_lost_commit_reply_are_stored_once(proxied, proxy, engine):
    await proxied.enqueue("task")
    proxy.drop_reply_to(b"COMMIT")
    handles = await proxied.enqueue_many(Request(kind="task", payload={"n": n}) for n in range(500))
    assert proxy.swallowed == 1
    assert {handle.outcome for handle in handles} == {"repeated"}
    assert engine.count("ready") == 501
    assert engine.value("select count(distinct payload->>'n') from posthouse.ready") == 500


async def test_a_mixed_batch_with_a_lost_commit_reply_is_stored_once(proxied, proxy, engine):
    proxy.drop_reply_to(b"COMMIT")
    handles = await proxied.enqueue_many(
        [
            Request(kind="task"),
            Request(kind="task", dedupe_key="k"),
            Request(kind="task", dedupe_key="k"),
            Request(kind="task", order_key="o"),
            Request(kind="task", order_key="o"),
            Request(kind="task", payload={"text": "z" * 5_000}),
        ]
    )
    assert proxy.swallowed == 1
    assert engine.count("jobs") == 5
    assert handles[1].id == handles[2].id
    order = engine.run_all()
    assert order.index(handles[3].id) < order.index(handles[4].id)


async def test_a_connection_that_breaks_before_the_request_arrives_makes_one_job(proxied, proxy, engine):
    marker = uuid4().hex
    proxy.disconnect_after(lambda direction, chunk: direction == "request" and marker.encode() in chunk)
    handle = await proxied.enqueue("task", subject=marker)
    assert proxy.cuts == 1
    assert [row.id for row in engine.rows("select id from posthouse.jobs")] == [handle.id]


async def test_a_connection_that_breaks_in_the_middle_of_a_copy_makes_each_job_once(proxied, proxy, engine):
    await proxied.enqueue("task")
    proxy.disconnect_after(200_000)
    await proxied.enqueue_many(Request(kind="task", payload={"n": n, "x": "x" * 500}) for n in range(2_000))
    assert proxy.cuts == 1
    assert engine.count("ready") == 2_001


async def test_a_connection_that_broke_while_idle_is_replaced(proxied, proxy, engine):
    await proxied.enqueue("task")
    assert proxy.disconnect_all() >= 1
    await proxied.enqueue("task")
    await proxied.enqueue_many([Request(kind="task")] * 3)
    assert engine.count("ready") == 5


async def test_a_server_that_comes_back_in_time_is_waited_for(proxied, proxy, engine):
    await proxied.enqueue("task")
    proxy.refuse_connections()
    sending = asyncio.ensure_future(proxied.enqueue("task"))
    before = proxy.accepted
    while proxy.accepted < before + 2:
        await asyncio.sleep(0.01)
    proxy.accept_connections()
    await sending
    assert engine.count("ready") == 2
