"""Enqueue through both clients: one, many, by COPY."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from posthouse import Client, Request, Retry
from posthouse.errors import (
    DatabaseUnavailable,
    DuplicateJob,
    InvalidJob,
    InvalidPayload,
    PayloadTooLarge,
    SchemaError,
)

AWKWARD = [
    "tab\there", "line\nbreak", "return\r", "back\\slash", "\\n", "\\N", "\\.", "\\", "\\\\", '"quoted"',
    "'single'", "ünïcödé", "日本語", "🚀", "a\u2028b", "\x01\x1f\x7f", "\b\f\v", "$1 %s %(x)s :x", "null", "",
    " ", "{}", "[1,2]",
    "\\u0000", "e\u0301", "\ufeff", "\\t", "a\\\tb",
]  # fmt: skip


async def test_one_job_is_stored_with_its_payload(client, engine):
    handle = await client.enqueue("welcome", {"user": 7})
    assert handle.outcome == "created"
    job = engine.job(handle.id)
    assert (job.kind, job.payload, job.status) == ("welcome", {"user": 7}, "queued")


async def test_a_request_may_be_submitted_as_it_is(client, engine):
    handle = await client.submit(Request(kind="welcome", payload={"a": 1}, tenant="acme"))
    assert engine.job(handle.id).tenant_id == "acme"


async def test_many_jobs_keep_their_order_by_copy(client, engine):
    requests = [Request(kind="task", payload={"n": n}) for n in range(1_000)]
    handles = await client.enqueue_many(requests)
    stored = engine.rows("select id, payload from posthouse.ready order by position")
    assert [row.payload["n"] for row in stored] == list(range(1_000))
    assert [row.id for row in stored] == [handle.id for handle in handles]
    assert {handle.outcome for handle in handles} == {"created"}


async def test_no_jobs_are_no_jobs(client, engine):
    assert list(await client.enqueue_many([])) == []
    assert engine.count("jobs") == 0


async def test_requests_may_come_from_a_generator(client, engine):
    handles = await client.enqueue_many(Request(kind="task") for _ in range(3))
    assert len({handle.id for handle in handles}) == 3


async def test_thousands_of_awkward_payloads_come_back_equal(client, engine):
    kinds = len(AWKWARD)
    payloads = [
        {"n": n, f"{AWKWARD[n % kinds]} key": AWKWARD[n // 7 % kinds], "deep": [{"a": [AWKWARD[n % 5]]}]}
        for n in range(3_000)
    ]
    await client.enqueue_many([Request(kind="task", payload=payload) for payload in payloads])
    stored = engine.rows("select payload::text from posthouse.ready order by position")
    assert [json.loads(row.payload) for row in stored] == payloads


@pytest.mark.parametrize("text", [text for text in AWKWARD if text and text.isprintable()])
async def test_awkward_texts_come_back_equal_by_copy(client, engine, text):
    fields = {"kind": text, "queue": text, "tenant": text, "correlation_id": text, "subject": text,
              "source_ref": text, "created_by": text}  # fmt: skip
    await client.enqueue_many([Request(**fields), Request(**fields)])
    columns = "kind, queue, tenant_id, correlation_id, subject, source_ref, created_by"
    for row in engine.rows(f"select {columns} from posthouse.ready"):
        assert set(row) == {text}
    assert len(engine.claim(5, kinds=[text], queues=[text])) == 2


PLAIN = {
    "nothing": {},
    "queue": {"queue": "mail"},
    "priority": {"priority": "high"},
    "attempts": {"max_attempts": 7},
    "timeout": {"timeout": "90s"},
    "ladder": {"retry": Retry("1s", "2s", "3s", "4s")},
    "exponential": {"retry": Retry.exponential("5s", jitter=0.5)},
    "ladder and attempts": {"retry": Retry("1s"), "max_attempts": 9},
    "texts": {"correlation_id": "c", "subject": "s", "source": "event", "source_ref": "r", "created_by": "m"},
    "parent": {"parent_id": uuid4()},
    "tenant": {"tenant": "acme"},
    "large": {"payload": {"text": "x" * 5_000}},
}


@pytest.mark.parametrize("options", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("defined", [False, True], ids=["unknown kind", "known kind"])
async def test_a_job_is_the_same_by_copy_and_by_itself(client, engine, options, defined):
    if defined:
        engine.connection.execute(
            "insert into posthouse.definitions "
            "(key, queue, priority, max_attempts, timeout_seconds, updated_at) "
            "values ('task', 'special', 5, 8, 30, now())"
        )
    request = Request(kind="task", **options)
    copied, _ = await client.enqueue_many([request, request])
    alone = await client.submit(request)

    def row(job_id):
        found = engine.row("select * from posthouse.ready where id = %s", job_id)
        return found._replace(id=None, queued_at=None, scheduled_for=None, position=None)

    assert row(copied.id) == row(alone.id)
    assert engine.job(copied.id).payload == engine.job(alone.id).payload


async def test_plain_and_special_jobs_may_be_mixed(client, engine):
    taken = await client.enqueue("task", dedupe_key="taken")
    handles = await client.enqueue_many(
        [
            Request(kind="task", subject="0"),
            Request(kind="task", subject="1", delay="1h"),
            Request(kind="task", subject="2", dedupe_key="taken"),
            Request(kind="task", subject="3", payload={"text": "x" * 9_000}),
            Request(kind="task", subject="4", dedupe_key="taken", on_duplicate="reject"),
            Request(kind="task", subject="5"),
        ]
    )
    assert [handle.outcome for handle in handles] == [
        "created", "created", "existing", "created", "rejected", "created",
    ]  # fmt: skip
    assert [engine.job(handles[n].id).subject for n in (0, 1, 3, 5)] == ["0", "1", "3", "5"]
    assert handles[2].id == handles[4].id == taken.id
    assert engine.count("jobs") == 5


async def test_times_are_kept(client, engine):
    at = datetime.now(UTC) + timedelta(days=3)
    handle = await client.enqueue("task", at=at)
    assert engine.job(handle.id).scheduled_for == at


async def test_a_rejected_duplicate_is_an_error_that_names_the_holder(client, engine):
    holder = await client.enqueue("task", dedupe_key="k")
    with pytest.raises(DuplicateJob) as caught:
        await client.enqueue("task", dedupe_key="k", on_duplicate="reject")
    assert str(holder.id) in str(caught.value)
    assert "'k'" in str(caught.value)
    assert engine.count("jobs") == 1


async def test_an_existing_job_stands_for_a_duplicate(client):
    holder = await client.enqueue("task", dedupe_key="k")
    duplicate = await client.enqueue("task", dedupe_key="k")
    assert (duplicate.id, duplicate.outcome) == (holder.id, "existing")


async def test_an_id_of_the_callers_makes_one_job_however_often(client, engine):
    job_id = uuid4()
    outcomes = [(await client.enqueue("task", {"a": 1}, id=job_id)).outcome for _ in range(5)]
    many = await client.enqueue_many([Request(kind="task", id=job_id)] * 3)
    assert outcomes == ["created", *["repeated"] * 4]
    assert {handle.outcome for handle in many} == {"repeated"}
    assert engine.count("jobs") == 1


async def test_an_id_of_the_callers_makes_one_job_even_at_once(client, engine):
    job_id = uuid4()
    handles = await asyncio.gather(*(client.enqueue("task", id=job_id) for _ in range(20)))
    assert sorted(handle.outcome for handle in handles) == ["created", *["repeated"] * 19]
    assert engine.count("jobs") == 1


async def test_single_jobs_of_one_task_take_no_connection_from_the_pool(url, engine, monkeypatch):
    monkeypatch.setattr("posthouse.client.enqueue.DEFINITION_TTL_SECONDS", 3600)
    async with Client(url) as client:
        await client.enqueue("mail")  # reads the definition through the pool
        before = client._pool.get_stats()["requests_num"]
        handles = [await client.enqueue("mail", {"number": number}) for number in range(5)]
        assert client._pool.get_stats()["requests_num"] == before
    assert [engine.job(handle.id).payload["number"] for handle in handles] == [0, 1, 2, 3, 4]


async def test_many_callers_may_share_a_client(client, engine):
    await asyncio.gather(*(client.enqueue("task", {"n": n}) for n in range(100)))
    assert engine.count("ready") == 100


BAD = {
    "NUL": ({"a": "\x00"}, InvalidPayload),
    "surrogate": ({"a": "\ud800"}, InvalidPayload),
    "NaN": ({"a": float("nan")}, InvalidPayload),
    "object": ({"a": object()}, InvalidPayload),
    "too large": ({"a": "x" * 2_000_000}, PayloadTooLarge),
    "a list": ([1], InvalidPayload),
    "a number that jsonb cannot hold": ({"a": 10**5_000}, InvalidPayload),
}


@pytest.mark.parametrize(("payload", "error"), BAD.values(), ids=BAD)
async def test_a_bad_payload_is_refused_and_leaves_nothing_behind(client, engine, payload, error):
    with pytest.raises(error):
        await client.enqueue("task", payload)
    good = Request(kind="task")
    for index in (0, 700):
        requests = [good] * 1_000
        requests[index] = Request(kind="task", payload=payload)
        with pytest.raises(error):
            await client.enqueue_many(requests)
    assert engine.count("jobs") == 0
    await client.enqueue_many([good, good])
    assert engine.count("jobs") == 2


@pytest.mark.parametrize(
    "options",
    [{"priority": 2**40}, {"depends_on": [uuid4()]}, {"timeout": 1e300}],
    ids=["priority", "dependency", "timeout"],
)
async def test_a_bad_option_is_refused_and_leaves_nothing_behind(client, engine, options):
    bad = Request(kind="task", **options)
    with pytest.raises(InvalidJob):
        await client.submit(bad)
    with pytest.raises(InvalidJob):
        await client.enqueue_many([Request(kind="task"), bad, Request(kind="task")])
    assert engine.count("jobs") == 0


async def test_a_limit_on_payloads_can_be_set(make_client, url, engine):
    small = make_client(url, max_payload_bytes=100)
    with pytest.raises(PayloadTooLarge, match="100"):
        await small.enqueue("task", {"a": "x" * 200})
    large = make_client(url, max_payload_bytes=20_000_000)
    handle = await large.enqueue("task", {"a": "x" * 10_000_000})
    assert len(engine.job(handle.id).payload["a"]) == 10_000_000


async def test_without_a_schema_it_says_what_to_do(make_client, server):
    name = f"posthouse_empty_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        client = make_client(make_conninfo(server, dbname=name))
        for send in (client.enqueue("task"), client.enqueue_many([Request(kind="task")] * 2)):
            with pytest.raises(SchemaError, match="posthouse migrate"):
                await send
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


async def test_an_unreachable_server_is_an_error_after_the_retries(make_client, proxy, url, monkeypatch):
    client = make_client(proxy.url_for(url))
    monkeypatch.setattr("posthouse.client.client.RETRY_SECONDS", 0.3)
    monkeypatch.setattr("posthouse.client.sync.RETRY_SECONDS", 0.3)
    proxy.refuse_connections()
    with pytest.raises(DatabaseUnavailable, match="cannot connect to Postgres"):
        await client.enqueue("task")
    monkeypatch.undo()
    proxy.accept_connections()
    assert (await client.enqueue("task")).outcome == "created"


async def test_a_handle_says_what_it_is(client):
    handle = await client.enqueue("task")
    assert str(handle.id) in repr(handle)
    assert "created" in repr(handle)
