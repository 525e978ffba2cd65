"""posthouse definitions."""

import json

import pytest

from support.payload_schema import SCHEMA


@pytest.fixture
def created(posthouse_command, tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    done = posthouse_command(
        "definitions", "create", "sync", "--timeout", "5m", "--retry", "1m,5m", "--priority", "high",
        "--schema", "schema.json", "--redact", "user.iban", "--requires", "gpu", "--description", "Syncs.",
        "--followup-queue", "mail", "--followup-queue", "video",
        "--", "zoltag", "sync", "--tenant", "{tenant_id}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def shown(posthouse_command, key="sync"):
    return json.loads(posthouse_command("definitions", "show", key, "--json").stdout)


def test_a_command_is_created_from_flags(created, posthouse_command):
    found = shown(posthouse_command)
    assert found["command"]["argv"] == ["zoltag", "sync", "--tenant", "{tenant_id}"]
    assert (found["timeout_seconds"], found["priority"], found["retry"]["ladder"]) == (300, 50, [60, 300])
    assert (found["schema"], found["redact"], found["requires"]) == (SCHEMA, ["user.iban"], ["gpu"])
    assert found["followup_queues"] == ["mail", "video"]
    assert (found["origin"], found["runner"], found["description"]) == ("operator", "command", "Syncs.")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("d.toml", 'timeout_seconds = "30s"\n[command]\nargv = ["true"]\n'),
        ("d.json", '{"timeout_seconds": 30, "command": {"argv": ["true"]}}'),
    ],
)
def test_a_command_is_created_from_a_file(posthouse_command, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert posthouse_command("definitions", "create", "sync", "--file", name).returncode == 0
    assert shown(posthouse_command)["timeout_seconds"] == 30


def test_it_is_listed_and_shown_for_people(created, posthouse_command):
    listed = posthouse_command("definitions", "list").stdout
    assert "sync" in listed
    assert "Syncs." in listed
    assert listed == posthouse_command("definitions").stdout
    for_people = posthouse_command("definitions", "show", "sync").stdout
    assert "zoltag" in for_people
    assert "mail, video" in for_people


def test_fields_are_changed_and_cleared_and_who_did_it_is_audited(created, posthouse_command, db):
    edited = posthouse_command("definitions", "edit", "sync", "--timeout", "1h", "--followup-queue", "mail")
    assert edited.returncode == 0
    found = shown(posthouse_command)
    assert (found["timeout_seconds"], found["followup_queues"]) == (3600, ["mail"])
    assert posthouse_command("definitions", "edit", "sync", "--clear", "timeout_seconds").returncode == 0
    assert shown(posthouse_command)["timeout_seconds"] is None
    actors = db.execute("select actor from posthouse.audit where action = 'definition.change'").fetchall()
    assert [actor.partition(":")[0] for (actor,) in actors] == ["cli", "cli"]


def test_an_inactive_kind_refuses_enqueue_until_it_is_activated(created, posthouse_command):
    assert "inactive" in posthouse_command("definitions", "deactivate", "sync").stdout
    refused = posthouse_command("enqueue", "sync", "--payload", '{"user_id": 1}')
    assert refused.returncode == 1
    assert "its definition is inactive" in refused.stderr
    assert posthouse_command("definitions", "activate", "sync").returncode == 0
    assert posthouse_command("enqueue", "sync", "--payload", '{"user_id": 1}').returncode == 0


def test_enqueue_refuses_a_payload_that_does_not_fit(created, posthouse_command):
    refused = posthouse_command("enqueue", "sync", "--payload", '{"user_id": "x"}')
    assert refused.returncode == 1
    assert 'payload.user_id: "x" is not of type "integer"' in refused.stderr


def test_a_payload_can_be_tried(created, posthouse_command, stored):
    good = posthouse_command("definitions", "check", "sync", "--payload", '{"user_id": 1}')
    assert (good.returncode, good.stdout) == (0, "valid payload for sync\n")
    bad = posthouse_command("definitions", "check", "sync", "--payload", "-", "--json", stdin="{}")
    assert bad.returncode == 1
    assert json.loads(bad.stdout) == {
        "valid": False,
        "errors": ['payload: "user_id" is a required property'],
    }
    assert stored() == 0


def test_it_is_removed_but_not_under_its_jobs(created, posthouse_command, db):
    db.execute("select posthouse.enqueue('sync')")
    refused = posthouse_command("definitions", "remove", "sync")
    assert refused.returncode == 1
    assert "queued or running" in refused.stderr
    assert posthouse_command("definitions", "remove", "sync", "--force").returncode == 0
    missing = posthouse_command("definitions", "show", "sync")
    assert (missing.returncode, missing.stderr) == (1, "error: definition 'sync' does not exist\n")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"command": {"argv": []}}, "definition.command: "),
        ({"command": {"argv": ["true"]}, "schema": {"type": "nonsense"}}, "invalid JSON Schema"),
        ({"command": {"argv": ["true"]}, "schema": {"$ref": "http://127.0.0.1:1/x"}}, "cannot fetch"),
        ({"command": {"argv": ["true"]}, "schema": {"$ref": "file:///etc/passwd"}}, "cannot fetch"),
        ({"command": {"argv": ["true"]}, "schema": {"pattern": "(?=a)(b)\\1"}}, 'not a "regex"'),
        ({"command": {"argv": ["true"]}, "schema": {"description": "x" * 70_000}}, "the limit is 65,536"),
        ({"command": {"argv": ["true"]}, "retry": {"ladder": ["soon"]}}, "soon"),
        ({"command": {"argv": ["true"]}, "retry": {"base": 1, "what": 2}}, "what"),
        ({"command": {"argv": ["true"]}, "timeout_seconds": 0}, "definition.timeout_seconds"),
        ({"command": {"argv": ["true"]}, "priority": "sometimes"}, "sometimes"),
        ({"command": {"argv": ["true"]}, "colour": "red"}, "'colour' was unexpected"),
    ],
)
def test_a_wrong_definition_is_refused_and_says_why(posthouse_command, tmp_path, db, fields, says):
    (tmp_path / "wrong.json").write_text(json.dumps(fields))
    refused = posthouse_command("definitions", "create", "sync", "--file", "wrong.json")
    assert refused.returncode == 1
    assert says in refused.stderr
    assert db.execute("select count(*) from posthouse.definitions").fetchone() == (0,)
