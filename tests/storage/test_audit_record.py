"""What people do is on record, whole and for good."""

import json

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse import testing
from posthouse.core.redaction import is_secret_name
from support.engine import Engine

DAY = 86400


def on_record(engine):
    rows = engine.rows("select action, target, before, after from posthouse.audit order by id")
    return [tuple(row) for row in rows]


@pytest.mark.parametrize(
    "statement",
    [
        "update posthouse.audit set actor = 'another'",
        "delete from posthouse.audit",
        "truncate posthouse.audit",
        "truncate posthouse.audit_default",
        "delete from posthouse.{part}",
        "update posthouse.{part} set action = 'nothing'",
        "truncate posthouse.{part}",
    ],
)
def test_what_is_on_record_is_neither_changed_nor_removed(engine, statement):
    engine.value("select posthouse.pause_queue('mail', 'anna')")
    part = engine.value("select c.relname from posthouse.audit a join pg_class c on c.oid = a.tableoid")
    with pytest.raises(psycopg.Error) as refused:
        engine.connection.execute(statement.format(part=part))
    assert refused.value.sqlstate == "PH017"
    assert engine.count("audit") == 1


def test_it_is_dropped_month_by_month_when_it_was_kept_long_enough(db, database):
    engine = Engine(db, database)
    engine.value("select posthouse.pause_queue('mail', 'anna')")
    engine.advance(300 * DAY)
    engine.run_retention(default=30, audit=365)
    assert engine.count("audit") == 1
    engine.advance(400 * DAY)
    engine.value("select posthouse.create_partitions()")
    engine.value("select posthouse.resume_queue('mail', 'anna')")
    engine.run_retention(default=30, audit=365)
    assert [action for action, *_ in on_record(engine)] == ["queue.resume"]


def test_each_change_says_what_was_and_what_is(engine):
    worker = engine.register()
    engine.value("select posthouse.pause_queue('mail', 'anna')")
    engine.value("select posthouse.resume_queue('mail', 'anna')")
    engine.value("select posthouse.change_tenant('default', '{\"weight\": 3}', 'anna')")
    engine.value("select posthouse.disable_worker(%s, 'anna')", worker)
    engine.value("select posthouse.enable_worker(%s, 'anna')", worker)
    engine.value("select posthouse.drain_worker(%s, 'anna')", worker)
    found = on_record(engine)
    assert [action for action, *_ in found] == [
        "queue.pause", "queue.resume", "tenant.weight", "worker.disable", "worker.enable", "worker.drain",
    ]  # fmt: skip
    for action, target, before, after in found:
        assert before is not None, action
        assert after is not None, action
        assert before != after, action
        assert target in {"mail", "default", str(worker)}
    assert found[3][2:] == (
        {"name": "w", "disabled": False, "draining": False},
        {"name": "w", "disabled": True, "draining": False},
    )


def test_what_changes_nothing_is_not_on_record(engine):
    worker = engine.register()
    for _ in range(2):
        engine.value("select posthouse.pause_queue('mail', 'anna')")
        engine.value("select posthouse.change_tenant('default', '{\"weight\": 3}', 'anna')")
        engine.value("select posthouse.disable_worker(%s, 'anna')", worker)
    assert len(on_record(engine)) == 3


def test_the_actor_defaults_to_the_session_user(engine):
    engine.value("select posthouse.pause_queue('one')")
    engine.connection.execute("set posthouse.actor = 'anna'")
    engine.value("select posthouse.pause_queue('two')")
    engine.value("select posthouse.pause_queue('three', 'ben')")
    engine.connection.execute("reset posthouse.actor")
    user = engine.value("select session_user")
    actors = [row.actor for row in engine.rows("select actor from posthouse.audit order by id")]
    assert actors == [f"sql:{user}", "anna", "ben"]


SECRETS = {
    "command": {
        "argv": ["run"],
        "env": {"API_TOKEN": "canary-1", "MODE": "fast"},
        "secrets": {"KEY": "name"},
    },
    "schema": {
        "properties": {
            "password": {"type": "string", "default": "canary-2"},
            "iban": {"x-secret": True, "examples": ["canary-3"], "description": "an account"},
        }
    },
    "url": "see postgresql://shop:canary-4@db/shop now",
    "list": [{"credentials": {"user": "canary-5"}}],
    "max_tokens": 500,
    "password_set": True,
    "token": None,
}


def test_secrets_do_not_reach_the_record_and_all_else_does(engine):
    engine.value("select posthouse.write_audit('anna', 'x.change', null, 'x', %s, null)", json.dumps(SECRETS))
    ((_, _, before, _),) = on_record(engine)
    assert "canary" not in json.dumps(before)
    assert before["command"] == {
        "argv": ["run"], "env": {"API_TOKEN": "[redacted]", "MODE": "fast"}, "secrets": {"KEY": "name"},
    }  # fmt: skip
    assert before["schema"]["properties"]["password"]["type"] == "string"
    assert before["schema"]["properties"]["iban"]["description"] == "an account"
    assert before["url"] == "see postgresql://shop:[redacted]@db/shop now"
    assert (before["max_tokens"], before["password_set"], before["token"]) == (500, True, None)


@pytest.fixture(scope="module")
def asked(server):
    """A database that is only asked."""
    with testing.database(server) as url, psycopg.connect(url, autocommit=True) as connection:
        yield lambda name: connection.execute("select posthouse.is_secret_name(%s)", (name,)).fetchone()[0]


WORDS = st.sampled_from(
    ["token", "Token", "type", "api", "API", "key", "Key", "pass", "password", "name", "max", "tokens",
     "auth", "id", "db", "session", "ref", "x", "HTTP", "pin", "opinion", "2", "secret", "cookie", "access"]
)  # fmt: skip


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from(["", "_", "-", "."]))
def test_the_database_knows_secret_names_by_the_same_rule(asked, words, between):
    name = between.join(words)
    assert asked(name) == is_secret_name(name)
