"""Definitions in the database: layers, audit, and what is refused."""

import psycopg
import pytest
from psycopg.rows import dict_row

from support.workers import claim_as_other_worker

COMMAND = '{"command": {"argv": ["true"]}, "description": "does nothing"}'


@pytest.fixture
def definition(db):
    def fetch(key):
        with db.cursor(row_factory=dict_row) as cursor:
            return cursor.execute("select * from posthouse.definitions where key = %s", (key,)).fetchone()

    return fetch


@pytest.fixture
def announce(db):
    def call(key="mail", **fields):
        return db.execute(
            "select posthouse.announce(jsonb_build_array(%s::jsonb))",
            (psycopg.types.json.Jsonb({"key": key, **fields}),),
        ).fetchone()[0]

    return call


def create(db, key="sync", fields=COMMAND, actor="ada"):
    return db.execute("select posthouse.create_definition(%s, %s, %s)", (key, fields, actor))


def change(db, key, changes, clear=(), actor="ada"):
    row = db.execute(
        "select version from posthouse.change_definition(%s, %s, %s, %s)", (key, changes, list(clear), actor)
    ).fetchone()
    return row[0]


def audited(db, action):
    return db.execute(
        "select actor, target, before, after from posthouse.audit where action = %s order by id", (action,)
    ).fetchall()


def refused(db, statement, *parameters, state="PH011"):
    with pytest.raises(psycopg.Error) as caught:
        db.execute(statement, parameters)
    assert caught.value.sqlstate == state
    return str(caught.value)


def test_what_an_operator_set_survives_the_next_start_of_a_worker(db, announce, definition):
    announce(queue="slow", timeout_seconds=30)
    change(db, "mail", '{"timeout_seconds": 90}')
    announce(queue="slower", timeout_seconds=31)
    assert definition("mail")["timeout_seconds"] == 90
    assert definition("mail")["queue"] == "slower"


def test_a_cleared_field_goes_back_to_what_the_code_says_now(db, announce, definition):
    announce(queue="slow", timeout_seconds=30)
    change(db, "mail", '{"timeout_seconds": 90, "queue": "quick"}')
    announce(queue="slow", timeout_seconds=31)
    change(db, "mail", "{}", ["timeout_seconds"])
    assert definition("mail")["timeout_seconds"] == 31
    assert definition("mail")["queue"] == "quick"


def test_an_announcement_that_says_nothing_new_changes_nothing(announce, definition):
    assert announce(queue="slow") == 1
    before = definition("mail")
    assert announce(queue="slow") == 0
    assert definition("mail") == before


def test_a_field_that_the_code_no_longer_mentions_goes_back_to_its_default(announce, definition):
    announce(max_attempts=9)
    announce(queue="slow")
    assert definition("mail")["max_attempts"] == 3


def test_a_change_increments_the_version_and_notifies_listeners(database, db, announce, definition):
    announce()
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("listen posthouse_definitions")
        assert change(db, "mail", '{"priority": 7}') == 2
        (notification,) = listener.notifies(timeout=60, stop_after=1)
    assert notification.payload == "mail"


def test_a_change_to_what_is_there_already_is_none(db, announce):
    announce()
    change(db, "mail", '{"priority": 7}')
    assert change(db, "mail", '{"priority": 7}') == 2
    assert len(audited(db, "definition.change")) == 1


def test_operator_changes_are_audited_with_before_and_after(db, definition):
    create(db)
    change(db, "sync", '{"priority": 7}', actor="grace")
    change(db, "sync", '{"active": false}')
    change(db, "sync", '{"active": true}')
    db.execute("select posthouse.remove_definition('sync', 'ada')")
    ((actor, target, before, after),) = audited(db, "definition.create")
    assert (actor, target, before, after["command"]) == ("ada", "sync", None, {"argv": ["true"]})
    ((actor, _, before, after),) = audited(db, "definition.change")
    assert (actor, before["priority"], after["priority"]) == ("grace", 100, 7)
    assert len(audited(db, "definition.deactivate")) == len(audited(db, "definition.activate")) == 1
    ((_, _, before, after),) = audited(db, "definition.remove")
    assert (before["priority"], after) == (7, None)
    assert definition("sync") is None


def test_a_created_command_has_the_defaults_and_is_the_operators(db, definition):
    create(db)
    row = definition("sync")
    assert (row["runner"], row["origin"], row["queue"], row["active"], row["version"]) == (
        "command", "operator", "default", True, 1,
    )  # fmt: skip
    assert row["timeout_seconds"] == 3600


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ('{"comand": {}}', "unknown field 'comand'"),
        ('{"command": "rm -rf"}', "command must be of type object, not string"),
        ('{"command": {}, "priority": "high"}', "priority must be of type number, not string"),
        ('{"command": {}, "priority": 99999999999}', "integer"),
        ('{"command": {}, "priority": null}', "priority must be of type number, not null"),
        ('{"command": {}, "max_attempts": 0}', "max_attempts_is_from_1"),
        ('{"command": {}, "timeout_seconds": -1}', "a_timeout_is_more_than_0"),
        ('{"command": {}, "queue": ""}', "a_queue_is_a_short_text"),
        ('{"command": {}, "redact": [7]}', "redact must contain only strings"),
        ('{"command": {}, "redact": [""]}', "not_empty"),
        ('{"command": {}, "requires": "gpu"}', "requires must be of type array"),
        ('{"command": {}, "schema": []}', "schema must be of type object"),
        ('{"command": {}, "active": "no"}', "active must be of type boolean"),
        ('{"command": {}, "runner": "shell"}', "a_command_runner_has_a_command"),
        ('{"command": {}, "runner": "handler"}', "a_command_runner_has_a_command"),
        ("[]", "a JSON object"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused_and_says_why(db, fields, says):
    assert says in refused(db, "select posthouse.create_definition('sync', %s)", fields)
    assert db.execute("select count(*) from posthouse.definitions").fetchone() == (0,)


@pytest.mark.parametrize("key", ["", "x" * 513, "two\nlines"])
def test_a_key_is_a_short_text_of_one_line(db, key):
    refused(db, "select posthouse.create_definition(%s, %s)", key, COMMAND)


def test_a_definition_without_a_command_gets_one_later_or_a_handler(db, definition, announce):
    db.execute("""select posthouse.create_definition('later', '{"description": "no command yet"}')""")
    assert (definition("later")["runner"], definition("later")["command"]) == ("handler", None)
    change(db, "later", '{"command": {"argv": ["true"]}}')
    assert definition("later")["runner"] == "command"
    db.execute("""select posthouse.create_definition('coded', '{"max_attempts": 7}')""")
    announce("coded", queue="mail")
    row = definition("coded")
    assert (row["origin"], row["queue"], row["max_attempts"]) == ("code", "mail", 7)


def test_a_key_is_created_once(db, announce):
    create(db)
    announce("mail")
    assert "already" in refused(db, "select posthouse.create_definition('sync', %s)", COMMAND, state="PH024")
    assert "already" in refused(db, "select posthouse.create_definition('mail', %s)", COMMAND, state="PH024")


def test_a_handler_cannot_take_the_name_of_a_command(db, announce, definition):
    create(db)
    with pytest.raises(psycopg.Error, match="command of that name is defined"):
        announce("sync", queue="x")
    assert definition("sync")["queue"] == "default"


def test_a_command_stays_one_and_so_does_a_handler(db, announce):
    create(db)
    announce("mail")
    refused(db, "select posthouse.change_definition('sync', '{}', '{runner}')")
    refused(db, "select posthouse.change_definition('sync', '{}', '{command}')")
    refused(db, """select posthouse.change_definition('mail', '{"runner": "command", "command": {}}')""")


def test_an_unknown_field_cannot_be_cleared(db):
    create(db)
    refused(db, "select posthouse.change_definition('sync', '{}', '{key}')")


def test_a_definition_that_is_not_there_cannot_be_changed_or_removed(db):
    assert change(db, "nothing", '{"priority": 1}') is None
    assert db.execute("select posthouse.remove_definition('nothing')").fetchone() == (False,)
    assert db.execute("select count(*) from posthouse.audit").fetchone() == (0,)


@pytest.mark.parametrize("job_table", ["ready", "waiting", "running"])
def test_a_definition_is_not_removed_under_its_jobs_unless_forced(db, job_table):
    create(db)
    delay = "1 hour" if job_table == "waiting" else None
    db.execute("select posthouse.enqueue('sync', delay => %s)", (delay,))
    if job_table == "running":
        assert claim_as_other_worker(db) is not None
    assert "queued or running" in refused(db, "select posthouse.remove_definition('sync')")
    assert db.execute("select posthouse.remove_definition('sync', p_force => true)").fetchone() == (True,)


def test_a_definition_whose_jobs_have_ended_is_removed(db):
    create(db)
    job = db.execute("select posthouse.enqueue('sync')").fetchone()[0]
    db.execute("select posthouse.cancel(%s)", (job,))
    assert db.execute("select posthouse.remove_definition('sync')").fetchone() == (True,)


@pytest.mark.parametrize(
    "enqueue",
    [
        "select posthouse.enqueue('sync')",
        "select posthouse.enqueue('sync', delay => '1 hour')",
        """select * from posthouse.enqueue_many('[{"kind": "other"}, {"kind": "sync"}]')""",
    ],
)
def test_an_inactive_kind_takes_no_jobs_and_nothing_of_the_batch_is_stored(db, enqueue):
    create(db)
    change(db, "sync", '{"active": false}')
    with pytest.raises(psycopg.Error, match="'sync' are not accepted: its definition is inactive") as caught:
        db.execute(enqueue)
    assert caught.value.sqlstate == "PH010"
    assert db.execute("select count(*) from posthouse.jobs").fetchone() == (0,)
    change(db, "sync", "{}", ["active"])
    db.execute(enqueue)


def test_jobs_that_were_queued_before_stay_and_can_be_claimed(db):
    create(db)
    db.execute("select posthouse.enqueue('sync')")
    change(db, "sync", '{"active": false}')
    assert claim_as_other_worker(db) is not None
