"""Two tenants on one server. One of them knows every id of the other and tries to see or change something."""

from __future__ import annotations

import json
import re
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from types import SimpleNamespace
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psycopg
import pytest
from test_role_table import routes

from posthouse import insights, testing
from posthouse.core.filters import completion_at, parse_filter
from posthouse.errors import PosthouseError
from posthouse.settings import Settings
from posthouse.storage.connections import tenant_transaction
from support.engine import Engine
from support.identity import as_tenant
from support.server import ServerThread

CANARY = "canary"
"""In everything that the victim owns, and in the names of machines."""
VICTIM, ATTACKER = "victim", "attacker"
LARGE = {"text": CANARY, "more": "x" * 5000}


@pytest.fixture(scope="module")
def tenants_server(server):
    """What the victim has, one of each; of the attacker's two jobs that wait for the same things."""
    with testing.database(server) as url, psycopg.connect(url, autocommit=True) as db:
        engine = Engine(db, url)
        tenants_server = SimpleNamespace(url=url, db=db, engine=engine, **_jobs(engine), **_triggers(engine))
        tenants_server.bulk = engine.value(
            'select posthouse.start_bulk_change(%s, \'{"tenant": "victim"}\', 1, 0.5, 20, %s)',
            uuid4(),
            CANARY,
        )
        engine.value("select posthouse.group_failures()")
        engine.value(
            "select posthouse.raise_alert('trigger_error', 'victim', 'canary', 'canary', '[\"canary\"]')"
        )
        db.execute(
            "insert into posthouse.samples (minute, tenant_id, queue, kind, ended) "
            "values (posthouse.now() - interval '10 min', 'victim', 'canary', 'canary', 7)"
        )
        db.execute("select posthouse.pause_queue('elsewhere', 'canary')")
        tenants_server.key = "c" * 8
        engine.value(
            "select posthouse.create_key(%s, 'hash', 'canary')",
            json.dumps({"id": str(uuid4()), "prefix": tenants_server.key, "name": CANARY,
                        "role": "tenant-viewer", "tenant_id": VICTIM}),
        )  # fmt: skip
        yield tenants_server


def _jobs(engine):
    engine.value(
        "select posthouse.register(%s, 'canary', 'canary', 1, '1', '{default}', '{task,canary}', 10, '{}', "
        '\'{"where": "canary"}\')',
        engine.worker,
    )
    engine.limit("shared", kinds=["task"], max_running=1)
    engine.limit("apart", kinds=["task"], per="tenant", max_running=5)
    own = {"tenant_id": VICTIM, "payload": LARGE, "subject": CANARY, "correlation_id": "same"}
    failed = engine.start("canary", **own)
    engine.settle(
        failed, "fail", "failed", error={"type": CANARY, "message": CANARY, "fingerprint": "f00d"},
        output={"stdout": CANARY},
    )  # fmt: skip
    running = engine.start("task", **own, order_key="line", dedupe_key="once")
    token = running.token
    engine.value("select posthouse.save_step(%s, %s, '1 min', 'canary', '\"canary\"', 1)", running.id, token)
    engine.value(
        "select posthouse.write_log(array[%s], array[%s], '{0}', '{log}', '{info}', '{canary}')",
        running.id, token,
    )  # fmt: skip
    part = {"name": CANARY, "status": "in_progress", "percent": 1}
    engine.rows(
        "select * from posthouse.report(%s, '1 min')",
        json.dumps([{"id": str(running.id), "token": str(token), "message": CANARY, "parts": [part]}]),
    )
    waiting = engine.enqueue("task", **own, depends_on=[str(running.id)])
    ready = engine.enqueue("task", **own)
    mine = engine.enqueue("task", tenant_id=ATTACKER, correlation_id="same")
    # An operator may make jobs of two tenants depend on each other; they see no more of each other for it.
    bound = engine.enqueue("task", tenant_id=ATTACKER, depends_on=[str(running.id)])
    jobs = {"failed": failed.id, "running": running.id, "waiting": waiting, "ready": ready}
    return {"jobs": jobs, "mine": mine, "bound": bound}


def _triggers(engine):
    engine.connection.execute(
        "insert into posthouse.definitions (key, updated_at) values ('sync', posthouse.now())"
    )
    trigger = engine.row(
        "select * from posthouse.create_trigger('victim', %s, 'canary')",
        json.dumps({"label": CANARY, "type": "event", "event_name": CANARY, "definition_key": "sync"}),
    ).id
    event = engine.value(
        "select posthouse.emit('canary', '{\"text\": \"canary\"}', 'victim', subject => 'canary')"
    )
    engine.connection.execute(
        "insert into posthouse.trigger_matches "
        "(event_id, trigger_id, replay, event_at, at, tenant_id, outcome, error) "
        "values (%s, %s, 0, posthouse.now(), posthouse.now(), 'victim', 'error', 'canary')",
        (event, trigger),
    )
    engine.connection.execute(
        "insert into posthouse.schedule_runs (trigger_id, nominal_at, at, tenant_id, outcome, reason) "
        "values (%s, posthouse.now(), posthouse.now(), 'victim', 'error', 'canary')",
        (trigger,),
    )
    return {"trigger": trigger, "event": event}


async def looks(db, tenants_server):
    """All that there is to read, with every id that the victim has."""
    yield "jobs", insights.list_jobs(db)
    yield "jobs of a correlation", insights.list_jobs(db, insights.JobFilter(correlation="same"))
    yield "jobs of a tenant", insights.list_jobs(db, insights.JobFilter(tenant=VICTIM))
    for name, job_id in tenants_server.jobs.items():
        for look in (insights.get_job, insights.list_attempts, insights.read_log, insights.parts_of,
                     insights.steps_of, insights.why, insights.timeline_of,
                     insights.pipeline_of):  # fmt: skip
            yield f"{look.__name__} {name}", look(db, job_id)
    for job_id in (tenants_server.mine, tenants_server.bound):
        yield "why of one's own", insights.why(db, job_id)
        yield "timeline of one's own", insights.timeline_of(db, job_id)
        yield "pipeline of one's own", insights.pipeline_of(db, job_id)
    yield "failures", insights.list_failure_groups(db)
    yield "a failure", insights.get_failure(db, "f00d")
    yield "bulk retries", insights.bulk_changes(db)
    yield "a bulk retry", insights.get_bulk_change(db, tenants_server.bulk)
    yield "how many to retry", insights.count_retriable(db, {"fingerprint": "f00d", "tenant": VICTIM})
    for line in ("-kind:x", "tenant:victim", "payload.canary:*", "canary", "status:failed", "subject:canary"):
        yield f"jobs by {line}", insights.find_jobs(db, parse_filter(line))
        yield f"how many by {line}", insights.count_found(db, parse_filter(line))
    for line in (
        "subject:",
        "correlation:",
        "payload.",
        "kind:",
        "queue:",
        "worker:",
        "fingerprint:",
        "error:",
    ):
        yield f"what may follow {line}", insights.suggest(db, completion_at(line))
    yield "triggers", insights.triggers(db)
    yield "a trigger", insights.get_trigger(db, tenants_server.trigger)
    yield "events", insights.events(db)
    yield "an event", insights.get_event(db, tenants_server.event)
    yield "matches", insights.matches_of(db, tenants_server.event)
    yield "alerts", insights.list_alerts(db)
    yield "samples", insights.series(db, by=("tenant", "queue", "kind"))
    yield "audit", insights.list_audit(db)
    yield "overview", insights.overview(db)
    yield "keys", insights.keys(db)
    yield "tenants", insights.tenants(db)
    yield "limits", insights.limits(db)
    yield "slots", insights.limit_slots(db)


async def seen(tenants_server, tenant):
    """What a tenant gets to see, look by look, as text; errors too."""
    async with await psycopg.AsyncConnection.connect(tenants_server.url, autocommit=True) as db:
        found = {}
        async for name, look in looks(db, tenants_server):
            async with tenant_transaction(db, tenant, seconds=10):
                try:
                    found[name] = repr(await look)
                except PosthouseError as error:
                    found[name] = f"{type(error).__name__}: {error}"
    return found


async def test_nothing_of_another_tenants_is_seen_by_any_look(tenants_server):
    found = await seen(tenants_server, ATTACKER)
    names = [
        str(item)
        for item in (
            *tenants_server.jobs.values(),
            tenants_server.trigger,
            tenants_server.event,
            tenants_server.bulk,
            tenants_server.key,
        )
    ]
    asked = {name for name, text in found.items() if "NotFound" in text}
    for name, text in found.items():
        assert CANARY not in text.replace("there is no failure", ""), name
        if name not in asked:  # else it is the id that was asked for
            assert not [item for item in names if item in text], name
    assert found["how many to retry"] == "0"
    assert found["an event"] == f"EventNotFound: event {tenants_server.event} does not exist"


async def test_the_owner_sees_what_the_other_did_not(tenants_server):
    """Or the test above would prove nothing."""
    found = await seen(tenants_server, VICTIM)
    blind = {"tenants", "limits", "slots", "samples", "how many to retry", "overview"}
    blind |= {f"{look} of one's own" for look in ("why", "timeline", "pipeline")}
    dull = {f"{look} {name}" for look in ("list_attempts", "read_log", "parts_of", "steps_of", "why")
            for name in tenants_server.jobs}  # fmt: skip
    dull |= {name for name in found if name.startswith(("how many by", "jobs by", "what may follow"))}
    assert {name for name, text in found.items() if CANARY not in text} <= blind | dull
    for name in ("jobs by -kind:x", "jobs by subject:canary", "jobs by canary", "what may follow subject:"):
        assert CANARY in found[name]
    assert "count=4" in found["how many by tenant:victim"]
    for name in ("read_log running", "parts_of running", "steps_of running", "list_attempts failed"):
        assert CANARY in found[name]
    assert "canary" in found["samples"]
    assert found["how many to retry"] == "1"


async def test_why_names_neither_who_fills_a_limit_nor_which_machines_there_are(tenants_server):
    async with await psycopg.AsyncConnection.connect(tenants_server.url, autocommit=True) as db:
        async with tenant_transaction(db, ATTACKER, seconds=10):
            held, bound = (
                await insights.why(db, tenants_server.mine),
                await insights.why(db, tenants_server.bound),
            )
        whole = await insights.why(db, tenants_server.mine)
    assert (held.reason, held.summary) == ("limit", "limit 'shared' is full")
    assert (held.limits[0].holders, held.workers, held.advice) == ([], [], "")
    assert held.limits[0].in_use == 0
    assert (bound.reason, bound.blocked_by) == ("blocked", [])
    assert whole.limits[0].holders[0].id == tenants_server.jobs["running"]
    assert whole.limits[0].holders[0].worker == CANARY


def attempts_to_write(tenants_server):
    """Statements, and what they answer when there is nothing of that name."""
    for job_id in tenants_server.jobs.values():
        yield "select posthouse.cancel(%s, 'victim')", (job_id,), None
        yield "select posthouse.reopen(%s, 'victim')", (job_id,), None
    yield "select posthouse.replay_event(%s, null, 'victim')", (tenants_server.event,), False
    yield (
        "select (posthouse.change_trigger(%s, '{\"enabled\": false}', 'victim')).id",
        (tenants_server.trigger,),
        None,
    )
    yield "select posthouse.remove_trigger(%s, 'victim')", (tenants_server.trigger,), False
    yield "select posthouse.stop_bulk_change(%s)", (tenants_server.bulk,), None
    yield "select posthouse.revoke_key(%s, 'victim')", (tenants_server.key,), None


DENIED = [
    "select posthouse.enqueue('sync', tenant_id => 'victim')",
    "select posthouse.enqueue_many('[]')",
    "select posthouse.change_tenant('attacker', '{\"weight\": 1000}')",
    "select posthouse.pause_queue('default')",
    "select posthouse.set_limit('shared', '{\"max_running\": 99}')",
    "select posthouse.write_audit('x', 'x', 'victim', 'x', null, null)",
    "select posthouse.open_session('{}', 'x', 1)",
    "select posthouse.create_tenant('x', '{}')",
    "select posthouse.enable_tenant_isolation()",
    "insert into posthouse.tenants (id) values ('x')",
    "update posthouse.ready set priority = 0",
    "delete from posthouse.history",
    "truncate posthouse.events",
    "select hash from posthouse.keys",
    "select * from posthouse.workers",
    "select * from posthouse.sessions",
    "select * from posthouse.dedupe_keys",
    "select * from posthouse.order_tails",
    "select * from posthouse.history_default",
    "alter table posthouse.ready disable row level security",
    "create table posthouse.mine (a int)",
    "create policy open on posthouse.ready using (true)",
]


@pytest.mark.parametrize("statement", DENIED)
def test_a_tenant_may_not(tenants_server, statement):
    with pytest.raises(psycopg.errors.InsufficientPrivilege), as_tenant(tenants_server.db, ATTACKER):
        tenants_server.db.execute(statement)


@pytest.mark.parametrize("statement", [
    "select posthouse.cancel(gen_random_uuid())",
    "select posthouse.emit('x')",
    "select posthouse.tenant_enqueue('[{\"kind\": \"x\"}]')",
    "select posthouse.create_trigger('victim', '{}')",
    "select posthouse.start_bulk_change(gen_random_uuid(), '{\"tenant\": \"victim\"}', 1, 1, 1)",
    "select posthouse.create_key('{}', 'x')",
    "select posthouse.revoke_key('cccccccc', 'victim')",
])  # fmt: skip
def test_without_a_tenant_nothing_is_written(tenants_server, statement):
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege, match=r"posthouse\.tenant is not set"),
        as_tenant(tenants_server.db, ""),
    ):
        tenants_server.db.execute(statement)


def of_the_victim(tenants_server):
    """All rows of the victim's: to see that nothing changed."""
    tables = [name for (name,) in tenants_server.db.execute(
        "select c.relname from pg_class as c join pg_attribute as a on a.attrelid = c.oid "
        "where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p') "
        "and not c.relispartition and a.attname = 'tenant_id' order by 1"
    )]  # fmt: skip
    rows = "select to_jsonb(t)::text from posthouse.{} as t where tenant_id = 'victim' order by 1"
    return {name: tenants_server.db.execute(rows.format(name)).fetchall() for name in tables}


def test_nothing_of_another_tenants_is_changed(tenants_server):
    before = of_the_victim(tenants_server)
    for statement, values, nothing in attempts_to_write(tenants_server):
        with as_tenant(tenants_server.db, ATTACKER):
            assert tenants_server.db.execute(statement, values).fetchone() == (nothing,), statement
    assert of_the_victim(tenants_server) == before
    assert (
        tenants_server.engine.value(
            "select state from posthouse.bulk_changes where id = %s", tenants_server.bulk
        )
        == "gathering"
    )


def enqueue(tenants_server, **fields):
    with as_tenant(tenants_server.db, ATTACKER):
        [(job_id, outcome)] = tenants_server.db.execute(
            "select id, outcome from posthouse.tenant_enqueue(%s)",
            (json.dumps([{"kind": "task", **fields}], default=str),),
        ).fetchall()
    return job_id, outcome


def test_a_job_belongs_to_the_tenant_of_the_transaction_even_if_it_names_another(tenants_server):
    before = of_the_victim(tenants_server)
    job_id, outcome = enqueue(
        tenants_server,
        tenant_id=VICTIM,
        dedupe_key="once",
        on_duplicate="replace",
        order_key="line",
        correlation_id="same",
    )
    assert outcome == "created"
    assert tenants_server.engine.job(job_id).tenant_id == ATTACKER
    assert tenants_server.engine.job(job_id).blockers == 0
    assert of_the_victim(tenants_server) == before


@pytest.mark.parametrize("field", ["depends_on", "parent_id"])
def test_anothers_job_is_as_unknown_as_one_that_never_was(tenants_server, field):
    texts = []
    for stranger in (tenants_server.jobs["running"], tenants_server.jobs["failed"], UUID(int=7)):
        value = [stranger] if field == "depends_on" else stranger
        with pytest.raises(psycopg.ProgrammingError, match="does not exist") as caught:
            enqueue(tenants_server, **{field: value})
        texts.append(caught.value.diag.message_primary.replace(str(stranger), "it"))
    assert len(set(texts)) == 1


def test_the_id_of_anothers_job_cannot_be_taken_over(tenants_server):
    before = of_the_victim(tenants_server)
    for job_id in tenants_server.jobs.values():
        given, outcome = enqueue(tenants_server, id=job_id)
        assert (given != job_id, outcome) == (True, "created")
        with pytest.raises(psycopg.ProgrammingError, match="already exists"):
            enqueue(tenants_server, id=job_id, verify=True)
    with (
        pytest.raises(psycopg.ProgrammingError, match="already exists"),
        as_tenant(tenants_server.db, ATTACKER),
    ):
        tenants_server.db.execute("select posthouse.emit('x', id => %s)", (tenants_server.event,))
    assert of_the_victim(tenants_server) == before


def test_events_triggers_and_bulk_changes_are_the_tenants_own(tenants_server):
    before = of_the_victim(tenants_server)
    fields = {"label": "x", "type": "event", "event_name": "x", "definition_key": "sync", "tenant_id": VICTIM,
              "origin": "code", "id": str(tenants_server.trigger)}  # fmt: skip
    with as_tenant(tenants_server.db, ATTACKER):
        made = tenants_server.db.execute(
            "select id, tenant_id, origin from posthouse.create_trigger('victim', %s)", (json.dumps(fields),)
        ).fetchone()
        event = tenants_server.db.execute("select posthouse.emit('x', '{}', 'victim')").fetchone()[0]
        bulk = tenants_server.db.execute(
            'select posthouse.start_bulk_change(%s, \'{"tenant": "victim", "kind": "task"}\', 1, 1, 1)',
            (uuid4(),),
        ).fetchone()[0]
    assert made[0] != tenants_server.trigger
    assert made[1:] == (ATTACKER, "operator")
    assert (
        tenants_server.engine.value("select tenant_id from posthouse.events where id = %s", event) == ATTACKER
    )
    criteria = tenants_server.engine.value(
        "select criteria ->> 'tenant' from posthouse.bulk_changes where id = %s", bulk
    )
    assert criteria == ATTACKER
    assert of_the_victim(tenants_server) == before


def test_a_tenant_enqueues_and_triggers_no_jobs_of_the_house(tenants_server):
    for fields in ({"kind": "posthouse.webhook"}, {"kind": "x", "queue": "posthouse.system"}):
        with pytest.raises(psycopg.ProgrammingError, match="are reserved"):
            enqueue(tenants_server, **fields)
    trigger = {"type": "event", "event_name": "x", "definition_key": "posthouse.webhook"}
    with (
        pytest.raises(psycopg.ProgrammingError, match=r"definition 'posthouse\.webhook' does not exist"),
        as_tenant(tenants_server.db, ATTACKER),
    ):
        tenants_server.db.execute("select posthouse.create_trigger('attacker', %s)", (json.dumps(trigger),))


@pytest.mark.parametrize("role", ["super-admin", "worker"])
def test_a_tenant_stores_no_key_that_reaches_further(tenants_server, role):
    key = {"id": str(uuid4()), "prefix": uuid4().hex[:8], "name": "x", "role": role, "tenant_id": None}
    with (
        pytest.raises(psycopg.ProgrammingError, match="cannot belong to a tenant"),
        as_tenant(tenants_server.db, ATTACKER),
    ):
        tenants_server.db.execute("select posthouse.create_key(%s, 'x')", (json.dumps(key),))


def test_over_http_all_routes_answer_as_if_it_were_not_there(tenants_server):
    ids = [
        *tenants_server.jobs.values(),
        tenants_server.trigger,
        tenants_server.event,
        tenants_server.bulk,
        tenants_server.key,
        "f00d",
        VICTIM,
        CANARY,
    ]
    before = of_the_victim(tenants_server)
    settings = Settings(database_url=tenants_server.url)
    with ServerThread(settings) as api_server, calling(api_server, "tenant-admin", ATTACKER) as ask:
        for method, path, _ in routes():
            if path == "/console/{path:path}":
                continue  # the same page for all callers and addresses: it calls the API itself
            for name in ids if "{" in path else [""]:
                where = re.sub(r"\{[^}]*\}", str(name), path)
                status, text = ask(method, where)
                assert CANARY not in text.replace(str(name) or "-", ""), (method, where, text)
                assert status >= 400 or "{" not in path or text in EMPTY, (method, where, text)
    assert of_the_victim(tenants_server) == before


EMPTY = {"", "[]", '{"items":[],"next_cursor":null}'}


@contextmanager
def calling(api_server, role, tenant):
    """A function that sends a request in this role: with http.client, which takes half as long as httpx."""
    headers = {"Authorization": f"Bearer {api_server.key(role, tenant)}"}
    with closing(HTTPConnection(urlsplit(api_server.url).netloc, timeout=30)) as connection:

        def ask(method, where):
            connection.request(method, where, headers=headers)
            with connection.getresponse() as answer:
                if "event-stream" in answer.headers.get("content-type", ""):
                    connection.close()  # it never ends
                    return answer.status, ""
                return answer.status, answer.read().decode()

        yield ask
