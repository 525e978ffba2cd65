"""Events and the triggers that make jobs of them."""

import asyncio
import json
from uuid import uuid4

import psycopg
import pytest

from posthouse import Client, SyncClient, testing, triggers
from posthouse.definitions import remove_definition
from posthouse.errors import (
    EventNotFound,
    InvalidDefinition,
    InvalidEvent,
    InvalidPayload,
    InvalidTrigger,
    TriggerNotFound,
)
from posthouse.keeper.keeper import Keeper
from support.waiting import eventually
from support.workers import running_worker, status_counts

SCHEMA = {
    "type": "object",
    "properties": {"provider_id": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["provider_id"],
    "additionalProperties": False,
}
TEMPLATE = {"provider_id": "{{event.provider_id}}"}


@pytest.fixture
def sync_folder(db):
    """A kind of job that exists without a worker."""
    db.execute(
        "select posthouse.announce(%s)",
        (json.dumps([{"key": "sync-folder", "schema": SCHEMA, "queue": "sync"}]),),
    )
    return "sync-folder"


@pytest.fixture
async def asked(database):
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def on(asked, sync_folder):
    """Makes a trigger on folder.updated."""

    async def make(tenant="default", **fields):
        known = {
            "label": "Resync",
            "trigger_type": "event",
            "event_name": "folder.updated",
            "definition_key": sync_folder,
            "payload_template": TEMPLATE,
            **fields,
        }
        return await triggers.create_trigger(asked, known, actor="test", tenant=tenant)

    return make


def jobs(db):
    columns = "id, kind, queue, tenant_id, payload, source, source_ref, subject, correlation_id"
    return db.execute(f"select {columns} from posthouse.jobs order by queued_at, id").fetchall()


async def test_an_event_makes_a_job_with_the_payload_filled_in(app, db, keeper, on):
    await on()
    event = await app.client.emit("folder.updated", {"provider_id": "p-1"}, subject="folder-7")
    assert await keeper.matcher.run_once() == {"fired": 1, "deduped": 0, "errors": 0}
    ((job, kind, queue, tenant, payload, source, ref, subject, correlation),) = jobs(db)
    assert (kind, queue, tenant, payload) == ("sync-folder", "sync", "default", {"provider_id": "p-1"})
    assert (source, ref, subject, correlation) == ("event", str(event), "folder-7", str(event))
    assert db.execute("select job_id, outcome from posthouse.trigger_matches").fetchall() == [(job, "fired")]
    assert db.execute("select count(*) from posthouse.pending_events").fetchone() == (0,)


async def test_a_running_keeper_matches_an_event_and_a_worker_runs_its_job(app, db, asked):
    seen = []

    @app.job()
    async def resync(provider_id: str):
        seen.append(provider_id)

    async with running_worker(app):
        await triggers.create_trigger(
            asked,
            {"event_name": "folder.updated", "definition_key": "resync", "payload_template": TEMPLATE},
            actor="test",
        )
        await app.client.emit("folder.updated", {"provider_id": "p-1"})
        await eventually(lambda: seen == ["p-1"])


@pytest.mark.parametrize("commit", [True, False])
async def test_an_event_belongs_to_the_callers_transaction(app, db, keeper, on, commit):
    await on()
    async with await psycopg.AsyncConnection.connect(app.settings.database_url) as connection:
        await app.client.emit("folder.updated", {"provider_id": "p"}, connection=connection)
        await (connection.commit() if commit else connection.rollback())
    await keeper.matcher.run_once()
    assert len(jobs(db)) == commit
    assert db.execute("select count(*) from posthouse.events").fetchone() == (int(commit),)


async def test_plain_sql_emits_too(db, keeper, on):
    await on(tenant="acme")
    db.execute("select posthouse.emit('folder.updated', '{\"provider_id\": \"p\"}', tenant_id => 'acme')")
    await keeper.matcher.run_once()
    assert [job[3] for job in jobs(db)] == ["acme"]


def test_a_client_without_a_loop_emits_too(settings, db):
    with SyncClient(settings=settings) as client:
        event = client.emit("order.paid", {"id": 7}, tenant="acme", correlation_id="c-1")
        with psycopg.connect(settings.database_url) as connection:
            client.emit("order.paid", {"id": 8}, connection=connection)
    found = db.execute(
        "select id, tenant_id, context, correlation_id from posthouse.events order by at"
    ).fetchall()
    assert found[0] == (event, "acme", {"id": 7}, "c-1")
    assert found[1][2] == {"id": 8}


async def test_only_the_tenants_own_enabled_triggers_that_want_it_fire(app, db, keeper, on):
    ours = await on(tenant="acme")
    await on(tenant="other")
    await on(tenant="acme", enabled=False)
    await on(tenant="acme", event_name="folder.removed")
    await app.client.emit("folder.updated", {"provider_id": "p"}, tenant="acme")
    assert (await keeper.matcher.run_once())["fired"] == 1
    assert db.execute("select trigger_id::text from posthouse.trigger_matches").fetchall() == [(ours["id"],)]


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("folder.*", True),
        ("*", True),
        ("*.updated", True),
        ("f*.upd*", True),
        ("folder", False),
        ("folder.updat_d", False),
        ("folder.%", False),
        ("folder.updated.*", False),
    ],
)
async def test_a_star_stands_for_any_part_of_a_name(app, keeper, on, pattern, fits):
    await on(event_name=pattern)
    await app.client.emit("folder.updated", {"provider_id": "p"})
    assert (await keeper.matcher.run_once())["fired"] == fits


async def test_the_same_payload_again_within_the_window_makes_no_second_job(app, db, keeper, on):
    await on(dedupe_window_seconds="2m")
    async with testing.clock(app) as clock:
        for provider in ("p", "p", "other", "p"):
            await app.client.emit("folder.updated", {"provider_id": provider})
        assert await keeper.matcher.run_once() == {"fired": 2, "deduped": 2, "errors": 0}
        (first,) = {job[0] for job in jobs(db) if job[4] == {"provider_id": "p"}}
        found = db.execute(
            "select distinct job_id from posthouse.trigger_matches where outcome = 'deduped'"
        ).fetchall()
        assert found == [(first,)]
        await clock.advance("110s")
        await app.client.emit("folder.updated", {"provider_id": "p"})
        assert (await keeper.matcher.run_once())["deduped"] == 1
        await clock.advance("11s")
        await app.client.emit("folder.updated", {"provider_id": "p"})
        assert (await keeper.matcher.run_once())["fired"] == 1


async def test_without_a_window_each_event_makes_a_job(app, keeper, on):
    await on(dedupe_window_seconds=0)
    for _ in range(3):
        await app.client.emit("folder.updated", {"provider_id": "p"})
    assert (await keeper.matcher.run_once())["fired"] == 3


async def test_a_job_that_cannot_be_created_is_recorded_and_does_not_block_others(app, db, keeper, on, asked):
    good = await on(label="good")
    missing = await on(label="missing", payload_template={"provider_id": "{{event.nowhere}}"})
    wrong = await on(label="wrong", payload_template={"provider_id": "x", "depth": "{{event.provider_id}}"})
    event = await app.client.emit("folder.updated", {"provider_id": "p"})
    assert await keeper.matcher.run_once() == {"fired": 1, "deduped": 0, "errors": 2}
    said = dict(
        db.execute(
            "select trigger_id::text, error from posthouse.trigger_matches where event_id = %s", (event,)
        )
    )
    assert said[good["id"]] is None
    assert said[missing["id"]] == "event.nowhere is missing: event has provider_id"
    assert 'payload.depth: "p" is not of type "integer"' in said[wrong["id"]]
    shown = dict(db.execute("select id::text, last_error from posthouse.triggers"))
    assert shown == said
    await triggers.change_trigger(asked, missing["id"], {"payload_template": TEMPLATE}, actor="test")
    assert dict(db.execute("select id::text, last_error from posthouse.triggers"))[missing["id"]] is None


async def test_a_kind_that_takes_no_jobs_is_an_error_of_the_match(app, db, keeper, on):
    await on()
    db.execute("select posthouse.change_definition('sync-folder', '{\"active\": false}')")
    await app.client.emit("folder.updated", {"provider_id": "p"})
    assert (await keeper.matcher.run_once())["errors"] == 1
    assert "inactive" in db.execute("select last_error from posthouse.triggers").fetchone()[0]


async def test_a_context_too_deep_to_read_is_an_error_of_the_match(db, keeper, on):
    await on()
    deep = '{"provider_id": "p", "deep": ' + "[" * 3000 + "]" * 3000 + "}"
    db.execute("select posthouse.emit('folder.updated', %s::jsonb)", (deep,))
    db.execute("select posthouse.emit('folder.updated', '{\"provider_id\": \"q\"}')")
    assert await keeper.matcher.run_once() == {"fired": 1, "deduped": 0, "errors": 1}


async def test_a_definition_with_triggers_is_not_removed_by_accident(on, asked, sync_folder):
    await on()
    with pytest.raises(InvalidDefinition, match="triggers still create jobs of this kind"):
        await remove_definition(asked, sync_folder, actor="ada")
    await remove_definition(asked, sync_folder, actor="ada", force=True)


async def test_an_event_is_replayed_when_asked_for(app, db, keeper, on, asked):
    await on(label="good")
    broken = await on(label="broken", payload_template={"provider_id": "{{event.nowhere}}"})
    event = await app.client.emit("folder.updated", {"provider_id": "p"})
    await keeper.matcher.run_once()
    await triggers.change_trigger(asked, broken["id"], {"payload_template": TEMPLATE}, actor="test")
    await triggers.replay_event(asked, event, actor="ada", triggers=[broken["id"]])
    assert await keeper.matcher.run_once() == {"fired": 1, "deduped": 0, "errors": 0}
    await triggers.replay_event(asked, event, actor="ada")
    assert (await keeper.matcher.run_once())["fired"] == 2  # a replay is meant: no window counts
    assert len(jobs(db)) == 4
    notes = db.execute("select actor, target from posthouse.audit where action = 'event.replay'").fetchall()
    assert notes == [("ada", str(event))] * 2
    with pytest.raises(EventNotFound):
        await triggers.replay_event(asked, uuid4(), actor="ada")
    with pytest.raises(EventNotFound):
        await triggers.replay_event(asked, event, actor="ada", tenant="another")


async def test_a_repeated_emit_makes_one_event(app, db, keeper, on):
    await on(dedupe_window_seconds=0)
    event = uuid4()
    for _ in range(2):
        assert await app.client.emit("folder.updated", {"provider_id": "p"}, id=event) == event
    await keeper.matcher.run_once()
    assert await app.client.emit("folder.updated", {"provider_id": "p"}, id=event) == event
    await keeper.matcher.run_once()
    assert len(jobs(db)) == 1
    assert db.execute("select count(*) from posthouse.events").fetchone() == (1,)


@pytest.mark.parametrize("name", ["", "two words", "a*", "x" * 201, "a\nb"])
async def test_a_wrong_name_is_refused(app, name):
    with pytest.raises(InvalidEvent, match="invalid event name"):
        await app.client.emit(name)


async def test_a_wrong_context_is_refused(app, db):
    with pytest.raises(InvalidPayload, match="NUL"):
        await app.client.emit("a.b", {"x": "\x00"})
    with pytest.raises(psycopg.Error, match="must be a JSON object"):
        db.execute("select posthouse.emit('a.b', '[]')")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"event_name": "two words"}, "trigger.event_name: expected a name like order.paid"),
        ({"payload_template": {"a": "{{evnt.x}}"}}, "{{evnt.x}} must start with one of event"),
        ({"payload_template": {"provider_id": 7}}, "invalid payload for sync-folder"),
        ({"payload_template": []}, "trigger.payload_template"),
        ({"definition_key": "nothing-such"}, "definition 'nothing-such' does not exist"),
        ({"dedupe_window_seconds": -1}, "trigger.dedupe_window_seconds"),
        ({"dedupe_window_seconds": "soon"}, "soon"),
        ({"cron_expr": "* * * * *"}, "trigger.cron_expr is not allowed for event triggers"),
        ({"labl": "x"}, "'labl' was unexpected"),
        ({"trigger_type": "sometimes"}, "trigger.trigger_type"),
    ],
)
async def test_a_wrong_trigger_is_refused(on, db, fields, says):
    with pytest.raises(InvalidTrigger) as raised:
        await on(**fields)
    assert says in str(raised.value)
    assert db.execute("select count(*) from posthouse.triggers").fetchone() == (0,)


async def test_what_people_do_to_triggers_is_audited(on, asked, db):
    trigger = await on(tenant="acme")
    await triggers.change_trigger(asked, trigger["id"], {"label": "New"}, actor="ada", tenant="acme")
    await triggers.change_trigger(asked, trigger["id"], {"label": "New"}, actor="ada")  # nothing changes
    await triggers.change_trigger(asked, trigger["id"], {"enabled": False}, actor="bob")
    await triggers.remove_trigger(asked, trigger["id"], actor="ada")
    rows = db.execute(
        "select actor, action, tenant_id, before ->> 'label', after ->> 'label' from posthouse.audit"
        " where action like 'trigger.%' order by id"
    ).fetchall()
    assert rows == [
        ("test", "trigger.create", "acme", None, "Resync"),
        ("ada", "trigger.change", "acme", "Resync", "New"),
        ("bob", "trigger.disable", "acme", "New", "New"),
        ("ada", "trigger.remove", "acme", "New", None),
    ]


async def test_another_tenants_trigger_is_not_found(on, asked):
    trigger = await on(tenant="acme")
    with pytest.raises(TriggerNotFound):
        await triggers.change_trigger(asked, trigger["id"], {"label": "x"}, actor="eve", tenant="other")
    with pytest.raises(TriggerNotFound):
        await triggers.remove_trigger(asked, trigger["id"], actor="eve", tenant="other")
    with pytest.raises(InvalidTrigger, match="type of a trigger cannot be changed"):
        await triggers.change_trigger(asked, trigger["id"], {"trigger_type": "schedule"}, actor="ada")


async def test_each_event_and_trigger_make_one_job_however_many_keepers_die(monkeypatch, db, settings, on):
    """Exactly one job per (event, trigger), though matchers are cut off at all moments."""
    monkeypatch.setattr("posthouse.keeper.triggers.EVENT_BATCH", 10)
    wanted = [await on(label=f"t{number}", dedupe_window_seconds=0) for number in range(3)]
    async with Client(settings=settings) as client:
        for number in range(80):
            await client.emit("folder.updated", {"provider_id": f"p{number}"})
    deaths = 0

    async def match_and_die():
        nonlocal deaths
        while db.execute("select count(*) from posthouse.pending_events").fetchone()[0]:
            keeper = Keeper(settings.database_url, settings)
            step = asyncio.ensure_future(keeper.matcher.run_once())
            await asyncio.wait([step], timeout=0.002 * deaths)  # in the end one lives long enough
            deaths += not step.done()
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            await keeper.stop()

    await asyncio.gather(*(match_and_die() for _ in range(3)))
    assert deaths > 0
    made = db.execute("select source_ref, created_by, count(*) from posthouse.jobs group by 1, 2").fetchall()
    assert len(made) == 80 * len(wanted)
    assert {count for *_, count in made} == {1}
    assert status_counts(db) == {"queued": 240}


@pytest.mark.soak
async def test_a_storm_of_events_is_matched_with_dedupe(app, db, keeper, on):
    await on(dedupe_window_seconds="5m")
    db.execute(
        "select posthouse.emit('folder.updated', jsonb_build_object('provider_id', (n % 50)::text))"
        " from generate_series(1, 10000) as n"
    )
    counts = {"fired": 0, "deduped": 0, "errors": 0}
    while db.execute("select exists (select from posthouse.pending_events)").fetchone()[0]:
        for name, number in (await keeper.matcher.run_once()).items():
            counts[name] += number
    assert counts == {"fired": 50, "deduped": 9950, "errors": 0}
