"""posthouse triggers and posthouse events."""

import json

import pytest

PAYLOAD = '{"folder_id": "{{event.id}}"}'


@pytest.fixture
def kind(db):
    schema = {"type": "object", "properties": {"folder_id": {"type": "integer"}}}
    db.execute("select posthouse.announce(%s)", (json.dumps([{"key": "sync", "schema": schema}]),))
    return "sync"


@pytest.fixture
def trigger(posthouse, kind):
    made = posthouse("triggers", "create", "--on", "folder.updated", "--kind", kind, "--payload", PAYLOAD)
    return made.out.strip()


def test_a_trigger_is_created_shown_changed_and_removed(posthouse, trigger):
    shown = posthouse("triggers", "show", trigger, "--json").json
    assert (shown["event_name"], shown["definition_key"], shown["enabled"]) == (
        "folder.updated",
        "sync",
        True,
    )
    posthouse("triggers", "edit", trigger, "--label", "Resync", "--window", "2m")
    posthouse("triggers", "disable", trigger)
    (listed,) = posthouse("triggers", "--json").json
    assert (listed["label"], listed["dedupe_window_seconds"], listed["enabled"]) == ("Resync", 120, False)
    assert "Resync" in posthouse("triggers", "list").out
    assert "on folder.updated" in posthouse("triggers", "show", trigger).out
    posthouse("triggers", "enable", trigger)
    posthouse("triggers", "remove", trigger)
    assert posthouse("triggers", "list", "--json").json == []


def test_an_event_is_emitted_shown_and_replayed(posthouse, trigger):
    event = posthouse("events", "emit", "folder.updated", "--context", '{"id": 7}').out.strip()
    posthouse("keeper", "--once")
    shown = posthouse("events", "show", event, "--json").json
    assert shown["context"] == {"id": 7}
    assert [(match["trigger_id"], match["outcome"]) for match in shown["matches"]] == [(trigger, "fired")]
    posthouse("events", "replay", event, "--trigger", trigger)
    posthouse("keeper", "--once")
    (listed,) = posthouse("events", "list", "--name", "folder.*", "--json").json
    assert (listed["id"], listed["fired"], listed["pending"]) == (event, 2, False)
    assert "fired" in posthouse("events", "show", event).out
    assert len(posthouse("jobs", "list", "--json").json) == 2


def test_a_trigger_is_fired_by_hand_and_followed_to_its_job(posthouse, trigger):
    job = posthouse(
        "triggers", "fire", trigger, "--event", "folder.updated", "--context", '{"id": 7}'
    ).out.strip()
    assert posthouse("jobs", "show", job, "--json").json["payload"] == {"folder_id": 7}
    event = posthouse("events", "list", "--json").json[0]["id"]
    again = posthouse("triggers", "fire", trigger, "--event", event, "--json").json
    assert (again["outcome"], again["event_id"]) == ("fired", event)
    listed = posthouse("triggers", "outcomes", trigger, "--json").json
    assert [item["job_id"] for item in listed] == [again["job_id"], job]
    assert "queued" in posthouse("triggers", "outcomes", trigger).out
    wrong = posthouse("triggers", "fire", trigger, "--event", "order.paid")
    assert wrong.code != 0
    assert "the trigger matches folder.updated, but the event is order.paid" in wrong.err


def test_a_schedule_is_shown_in_words(posthouse, kind):
    made = posthouse("triggers", "create", "--cron", "30 2 * * MON-FRI", "--kind", kind).out.strip()
    assert "at 02:30 on Monday to Friday, UTC" in posthouse("triggers", "show", made).out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("triggers", "create", "--kind", "sync"), "missing --on EVENT or --cron EXPR"),
        (("triggers", "create", "--on", "x"), "trigger.definition_key is required for event triggers"),
        (("triggers", "create", "--on", "x", "--kind", "nope"), "definition 'nope' does not exist"),
        (
            ("triggers", "create", "--on", "x", "--kind", "sync", "--payload", "{"),
            "--payload is not valid JSON",
        ),
        (("triggers", "show", "7"), "'7' is not a trigger id"),
        (("triggers", "show", "01890a5d-ac96-774b-bcce-b302099a8057"), "b302099a8057 does not exist"),
        (("events", "emit", "two words"), "invalid event name"),
        (("events", "emit", "x", "--context", "[]"), "--context must be a JSON object"),
        (("events", "replay", "01890a5d-ac96-774b-bcce-b302099a8057"), "b302099a8057 does not exist"),
    ],
)
def test_errors_are_reported(posthouse, kind, arguments, says):
    failed = posthouse(*arguments)
    assert failed.code != 0
    assert says in failed.err
