"""Command definitions: what is accepted, what is refused and how."""

import json

import pytest

from posthouse.commands import CommandSpec, Outcome
from posthouse.errors import InvalidCommand

FULL = {
    "argv": ["zoltag", "sync", "--tenant", "{tenant_id}", ["--prefix", "{payload.prefix?}"]],
    "allow_dash": ["payload.prefix"],
    "cwd": "/srv/app",
    "env": {"MODE": "batch"},
    "secrets": {"TOKEN": "dropbox-token"},
    "inherit_env": ["PATH"],
    "max_output_bytes": 1000,
    "memory_mb": 512,
    "cpu_seconds": 60,
    "open_files": 64,
    "exit_codes": {"1-63": "fail", "3": "snooze:5m"},
    "progress": "lines",
    "result": "json",
}


def test_a_definition_survives_the_way_through_json():
    spec = CommandSpec.from_json(json.loads(json.dumps(FULL)))
    assert spec.to_json() == FULL
    assert CommandSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_defaults_are_not_written_out():
    assert CommandSpec(argv=["true"]).to_json() == {"argv": ["true"]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"argv": "ls -l"}, "argv must be a list"),
        ({"arg": []}, "did you mean 'argv'"),
        ({"shell": True}, "unknown field 'shell' in the command definition; the fields are argv"),
        ({"cwd": "relative"}, "absolute path"),
        ({"cwd": None}, "absolute path"),
        ({"env": {"A=B": "x"}}, "name of an environment variable"),
        ({"env": {"A": 1}}, "write numbers in quotes"),
        ({"env": {"A": "a\x00"}}, "NUL"),
        ({"env": ["A"]}, "env must be a JSON object"),
        ({"env": None}, "env must be a JSON object"),
        ({"secrets": {"A": ""}}, "not its value"),
        ({"secrets": {"A": 7}}, "not its value"),
        ({"env": {"A": "x"}, "secrets": {"A": "y"}}, "both env and secrets"),
        ({"inherit_env": "PATH"}, "list of names"),
        ({"inherit_env": ["A B"]}, "name of an environment variable"),
        ({"max_output_bytes": -1}, "must be an integer"),
        ({"max_output_bytes": None}, "must be an integer"),
        ({"memory_mb": 0}, "must be an integer"),
        ({"memory_mb": True}, "must be an integer"),
        ({"cpu_seconds": 1.5}, "must be an integer"),
        ({"open_files": 1}, "must be an integer"),
        ({"progress": "yes"}, 'null or "lines"'),
        ({"result": "xml"}, 'null or "json"'),
        ({"emits": "two words"}, "name of an event"),
        ({"emits": "order.*"}, "name of an event"),
        ({"exit_codes": []}, "exit_codes must be a JSON object"),
        ({"exit_codes": {"x": "fail"}}, "invalid key"),
        ({"exit_codes": {"256": "fail"}}, "between 0 and 255"),
        ({"exit_codes": {"9-3": "fail"}}, "with the lower code first"),
        ({"exit_codes": {"1": "explode"}}, "snooze:30s"),
        ({"exit_codes": {"1": "snooze:soon"}}, "invalid duration 'soon'"),
        ({"exit_codes": {"1-5": "fail", "5-9": "retry"}}, "overlap"),
    ],
)
def test_an_invalid_definition_is_rejected_with_a_suggestion(change, says):
    with pytest.raises(InvalidCommand, match=says):
        CommandSpec.from_json({"argv": ["true"], **change})


@pytest.mark.parametrize("data", [None, [], "true", {}])
def test_a_definition_is_an_object_with_argv(data):
    with pytest.raises(InvalidCommand):
        CommandSpec.from_json(data)


def test_an_error_about_secrets_does_not_show_what_was_written():
    with pytest.raises(InvalidCommand) as caught:
        CommandSpec(argv=["true"], secrets={"TOKEN": ["hunter2"]})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, Outcome("succeed")),
        (75, Outcome("retry")),
        (65, Outcome("fail")),
        (1, Outcome("retry")),
        (137, Outcome("retry")),
    ],
)
def test_without_a_table_zero_succeeds_and_dataerr_fails(code, outcome):
    assert CommandSpec(argv=["true"]).endings[code] == outcome


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, Outcome("succeed")),
        (3, Outcome("snooze", 300)),
        (4, Outcome("fail")),
        (65, Outcome("fail")),
        (66, Outcome("retry")),
        (75, Outcome("succeed")),
    ],
)
def test_a_single_code_goes_before_a_range_and_both_before_the_defaults(code, outcome):
    table = {"1-63": "fail", "3": "snooze:5m", "70-79": "succeed"}
    assert CommandSpec(argv=["true"], exit_codes=table).endings[code] == outcome
