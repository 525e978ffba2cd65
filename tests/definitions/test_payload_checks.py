"""Payloads that do not fit their kind are refused, whichever way they come."""

from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine

import posthouse
from posthouse import testing
from posthouse.client import enqueue
from posthouse.core.request import Request
from posthouse.errors import InactiveDefinition, InvalidDefinition, InvalidPayload
from support.payload_schema import SCHEMA

GOOD, BAD = {"user_id": 7}, {"user_id": "x"}


@pytest.fixture
def report(create):
    create("report", schema=SCHEMA)


def request(payload, **options):
    return Request(kind="report", payload=payload, **options)


async def test_the_error_names_the_place_and_what_is_wrong_there(client, report, stored):
    with pytest.raises(InvalidPayload, match=r'report: payload\.user_id: "x" is not of type "integer"'):
        await client.enqueue("report", BAD)
    assert stored() == 0


async def test_a_payload_that_fits_is_enqueued(client, report, stored):
    await client.enqueue("report", GOOD)
    assert stored() == 1


async def test_a_value_that_does_not_have_its_format_is_refused(client, sync_client, create, stored):
    create("sync", schema={"properties": {"provider_id": {"type": "string", "format": "uuid"}}})
    with pytest.raises(InvalidPayload, match=r'payload\.provider_id: "not-a-uuid" is not a "uuid"'):
        await client.enqueue("sync", {"provider_id": "not-a-uuid"})
    with pytest.raises(InvalidPayload, match='is not a "uuid"'):
        sync_client.enqueue("sync", {"provider_id": "not-a-uuid"})
    assert stored() == 0
    await client.enqueue("sync", {"provider_id": str(uuid4())})
    assert stored() == 1


@pytest.mark.parametrize("options", [{}, {"delay": 60}, {"dedupe_key": "k"}])
async def test_a_batch_with_one_bad_payload_is_refused_whole_and_says_which(client, report, stored, options):
    requests = [request(GOOD, **options) for _ in range(5)]
    requests[3] = request(BAD, **options)
    with pytest.raises(InvalidPayload, match="request 3: report: payload"):
        await client.enqueue_many(requests)
    assert stored() == 0


async def test_up_to_ten_problems_are_named(client, report):
    with pytest.raises(InvalidPayload) as caught:
        await client.enqueue_many([request(BAD)] * 50)
    assert str(caught.value).count("is not of type") == 10


async def test_a_large_batch_that_fits_goes_by_copy_as_before(client, report, db):
    await client.enqueue_many([request({"user_id": number}) for number in range(2000)])
    assert db.execute("select count(*) from posthouse.ready").fetchone() == (2000,)


def test_the_synchronous_client_checks_too(sync_client, report, stored):
    with pytest.raises(InvalidPayload, match="user_id"):
        sync_client.enqueue("report", BAD)
    with pytest.raises(InvalidPayload, match="request 1: "):
        sync_client.enqueue_many([request(GOOD), request(BAD)])
    assert stored() == 0


async def test_it_is_checked_in_a_transaction_of_psycopg_which_goes_on(client, report, database, stored):
    async with await psycopg.AsyncConnection.connect(database) as connection:
        with pytest.raises(InvalidPayload, match="user_id"):
            await client.enqueue("report", BAD, connection=connection)
        await client.enqueue("report", GOOD, connection=connection)
    assert stored() == 1


async def test_it_is_checked_in_a_transaction_of_asyncpg(client, report, database, stored):
    connection = await asyncpg.connect(database)
    try:
        async with connection.transaction():
            with pytest.raises(InvalidPayload, match="user_id"):
                await client.enqueue("report", BAD, connection=connection)
            await client.enqueue("report", GOOD, connection=connection)
    finally:
        await connection.close()
    assert stored() == 1


def test_it_is_checked_in_a_transaction_of_sqlalchemy(sync_client, report, database, stored):
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        with pytest.raises(InvalidPayload, match="user_id"):
            sync_client.enqueue("report", BAD, connection=connection)
        sync_client.enqueue("report", GOOD, connection=connection)
    engine.dispose()
    assert stored() == 1


async def test_a_definition_of_the_callers_own_transaction_counts(client, database):
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute(
            "select posthouse.create_definition('fresh', %s)",
            ('{"command": {"argv": ["true"]}, "schema": {"required": ["a"]}}',),
        )
        with pytest.raises(InvalidPayload, match='"a" is a required property'):
            await client.enqueue("fresh", {}, connection=connection)


async def test_what_is_checked_is_what_would_be_stored(client, create):
    create(
        "typed",
        schema={"properties": {"at": {"type": "string"}, "id": {"type": "string"}, "t": {"type": "array"}}},
    )
    await client.enqueue("typed", {"at": datetime.now(UTC), "id": uuid4(), "t": (1, 2)})


async def test_a_kind_without_a_definition_takes_any_payload(client, stored):
    await client.enqueue("unknown kind", {"any": ["thing"]})
    assert stored() == 1


async def test_a_refusal_does_not_repeat_what_the_payload_holds_in_secret(client, create):
    create(
        "login",
        schema={"properties": {"password": {"maxLength": 3}, "pin": {"x-secret": True, "type": "string"}}},
    )
    with pytest.raises(InvalidPayload) as caught:
        await client.enqueue("login", {"password": "cAnArY7Secret9", "pin": 47110815})
    assert "cAnArY7Secret9" not in str(caught.value)
    assert "47110815" not in str(caught.value)
    assert "payload.password" in str(caught.value)


async def test_a_change_of_the_schema_reaches_a_client_that_has_it_cached(
    client, report, change, monkeypatch
):
    monkeypatch.setattr(enqueue, "DEFINITION_TTL_SECONDS", 0.0)  # no need to wait until they are over
    await client.enqueue("report", GOOD)
    change("report", schema={"required": ["year"]})
    with pytest.raises(InvalidPayload, match='"year" is a required property'):
        await client.enqueue("report", GOOD)


async def test_a_schema_stored_past_all_checks_is_the_definitions_fault(client, create):
    create("broken", schema={"type": "nonsense"})
    with pytest.raises(InvalidDefinition, match="the definition of broken is invalid"):
        await client.enqueue("broken", {})


@pytest.mark.parametrize("many", [False, True])
async def test_an_inactive_kind_is_refused_by_every_client_at_once(  # noqa: PLR0917 - fixtures
    client, sync_client, create, change, stored, many
):
    create("report")
    await client.enqueue("report")
    sync_client.enqueue("report")
    change("report", active=False)
    requests = [Request(kind="report")] * (2 if many else 1)
    with pytest.raises(InactiveDefinition, match="'report' are not accepted"):
        await client.enqueue_many(requests)
    with pytest.raises(InactiveDefinition):
        sync_client.enqueue_many(requests)
    assert stored() == 2
    change("report", active=True)
    await client.enqueue_many(requests)


async def test_a_handler_of_this_process_is_checked_by_its_types_and_gives_way_to_the_operator(
    app, change, db
):
    @app.job(queue="code", priority=5, max_attempts=4)
    async def mail(user_id: int) -> None: ...

    await testing.drain(app)
    change("mail", queue="operator", max_attempts=9)
    await mail.enqueue(user_id=1)
    await mail.using(queue="caller").enqueue(user_id=1)
    rows = db.execute(
        "select queue, priority, max_attempts from posthouse.ready order by position"
    ).fetchall()
    assert rows == [("operator", 5, 9), ("caller", 5, 9)]


async def test_an_operators_schema_also_binds_handlers_of_this_process(app, change):
    @app.job()
    async def mail(user_id: int) -> None: ...

    await testing.drain(app)
    change("mail", schema={"properties": {"user_id": {"maximum": 10}}})
    with pytest.raises(InvalidPayload, match="99 is greater than the maximum of 10"):
        await mail.enqueue(user_id=99)


async def test_a_payload_that_came_by_sql_is_checked_before_it_runs_and_kept_whole(app, change, db):
    ran = []

    @app.job()
    async def mail(job: posthouse.Job) -> None:
        ran.append(job.payload)

    await testing.drain(app)
    change("mail", schema=SCHEMA)
    bad, good = (
        db.execute("select posthouse.enqueue('mail', %s)", (text,)).fetchone()[0]
        for text in ('{"user_id": "x", "more": [1]}', '{"user_id": 1}')
    )
    await testing.drain(app)
    status, payload, error = db.execute(
        "select status, payload, error from posthouse.jobs where id = %s", (bad,)
    ).fetchone()
    assert (status, payload, error["type"]) == (
        "dead_letter",
        {"user_id": "x", "more": [1]},
        "InvalidPayload",
    )
    assert 'payload.user_id: "x" is not of type "integer"' in error["message"]
    assert ran == [{"user_id": 1}]
    assert db.execute("select status from posthouse.jobs where id = %s", (good,)).fetchone() == ("succeeded",)


async def test_one_bad_payload_of_a_batch_leaves_the_others_alone(app, change, db):
    ran = []

    @app.job(batch=10)
    async def mails(jobs: list[posthouse.Job]) -> None:
        ran.extend(job.payload["user_id"] for job in jobs)

    await testing.drain(app)
    change("mails", schema=SCHEMA)
    for text in ('{"user_id": 1}', '{"user_id": "x"}', '{"user_id": 3}'):
        db.execute("select posthouse.enqueue('mails', %s)", (text,))
    assert await testing.drain(app) == {"succeeded": 2, "dead_letter": 1}
    assert sorted(ran) == [1, 3]


async def test_a_follow_up_that_does_not_fit_fails_where_it_is_added(app, create, db):
    create("report", schema=SCHEMA)

    @app.job()
    async def first(job: posthouse.Job) -> str:
        with pytest.raises(InvalidPayload, match="user_id"):
            job.enqueue("report", BAD)
        job.enqueue("report", GOOD)
        return "ok"

    await first.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert db.execute("select payload from posthouse.ready where kind = 'report'").fetchall() == [(GOOD,)]


async def test_a_follow_up_of_an_inactive_kind_fails_where_it_is_added(app, create, change):
    create("report")
    change("report", active=False)

    @app.job()
    async def first(job: posthouse.Job) -> None:
        with pytest.raises(InactiveDefinition):
            job.enqueue("report")

    await first.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
