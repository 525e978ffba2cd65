"""Argument lists from templates."""

import uuid

import pytest

from posthouse.core.command.template import parse_template
from posthouse.errors import InvalidCommand, InvalidPayload
from support.commands import values


def render(argv, allow_dash=(), **payload):
    return parse_template(argv, allow_dash).render(values(**payload))


@pytest.mark.parametrize(
    ("element", "payload", "arguments"),
    [
        ("plain", {}, ["plain"]),
        ("", {}, [""]),
        ("{tenant_id}", {}, ["acme"]),
        ("{job_id}/{attempt}/{correlation_id}/{subject}", {}, ["0190-1/1/c-1/photo/7"]),
        ("--prefix={payload.p}", {"p": "a b"}, ["--prefix=a b"]),
        ("{payload.a.b}", {"a": {"b": "deep"}}, ["deep"]),
        ("{payload.a.1}", {"a": ["x", "y"]}, ["y"]),
        ("{payload.p}", {"p": ""}, [""]),
        ("{payload.p}", {"p": 7}, ["7"]),
        ("{payload.p}", {"p": 1.5}, ["1.5"]),
        ("{payload.p}", {"p": True}, ["true"]),
        ("{payload.p}", {"p": "{tenant_id}"}, ["{tenant_id}"]),
        ("{{payload.p}}", {"p": "x"}, ["{payload.p}"]),
        ("{payload.p:json}", {"p": {"a": [1, None]}}, ['{"a":[1,null]}']),
        ("{payload:json}", {"p": "ü"}, ['{"p":"\\u00fc"}']),
        ("{payload.f*}", {"f": ["a", "b c"]}, ["a", "b c"]),
        ("{payload.f*}", {"f": []}, []),
        ("--file={payload.f*}", {"f": ["a", "-b"]}, ["--file=a", "--file=-b"]),
        ("{payload.f*:json}", {"f": [{"a": 1}, 2]}, ['{"a":1}', "2"]),
        (["--prefix", "{payload.p?}"], {"p": "x"}, ["--prefix", "x"]),
        (["--prefix", "{payload.p?}"], {}, []),
        (["--prefix", "{payload.p?}"], {"p": None}, []),
        (["--prefix", "{payload.p?}"], {"p": ""}, ["--prefix", ""]),
        (["--prefix", "{payload.a.b?}"], {"a": "no object"}, []),
        (["--files", "{payload.f?*}"], {}, []),
        (["--files", "{payload.f*}"], {"f": []}, []),
        (["--files", "{payload.f?*}"], {"f": ["a", "b"]}, ["--files", "a", "b"]),
        (["--force", "{if payload.force}"], {"force": True}, ["--force"]),
        (["--force", "{if payload.force}"], {"force": False}, []),
        (["--force", "{if payload.force}"], {}, []),
        (["{if payload.deep}", "--depth", "{payload.depth}"], {"deep": True, "depth": 3}, ["--depth", "3"]),
    ],
)
def test_an_element_becomes_these_arguments(element, payload, arguments):
    assert render(["prog", element], **payload) == ["prog", *arguments]


def test_a_uuid_is_text():
    number = uuid.uuid4()
    assert parse_template(["prog", "{job_id}"]).render({"job_id": number}) == ["prog", str(number)]


@pytest.mark.parametrize(
    ("element", "payload", "says"),
    [
        ("{payload.p}", {}, "payload.p is required"),
        ("{payload.p}", {"p": None}, "payload.p is required"),
        ("{payload.f*}", {}, "payload.f is required"),
        ("{payload.f*}", {"f": "text"}, "must be a list"),
        ("{payload.f*}", {"f": [None]}, "null"),
        ("{payload.f*}", {"f": [{"a": 1}]}, ":json"),
        ("{payload.p}", {"p": ["a"]}, "is a list"),
        ("{payload.p}", {"p": {"a": 1}}, ":json"),
        ("{payload.p}", {"p": "a\x00b"}, "NUL"),
        ("{payload.p}", {"p": "\ud800"}, "surrogate"),
        (["--force", "{if payload.force}"], {"force": "yes"}, "true or false"),
        (["-d", "{if payload.a}", "{payload.b}"], {"a": True}, "payload.b is required"),
    ],
)
def test_values_that_do_not_fit_are_refused(element, payload, says):
    with pytest.raises(InvalidPayload, match=says):
        render(["prog", element], **payload)


@pytest.mark.parametrize(
    ("element", "payload"),
    [
        ("{payload.p}", {"p": "-rf"}),
        ("{payload.p}", {"p": "--output=/etc/passwd"}),
        ("{payload.p}", {"p": "-"}),
        ("{payload.p}", {"p": -5}),
        ("{payload.p}{payload.q}", {"p": "", "q": "--evil"}),
        ("{payload.f*}", {"f": ["ok", "--evil"]}),
        (["--name", "{payload.p?}"], {"p": "--evil"}),
        ("{subject}", {}),
    ],
)
def test_a_value_cannot_become_an_option(element, payload):
    template = parse_template(["prog", element])
    with pytest.raises(InvalidPayload, match="allow_dash"):
        template.render({**values(**payload), "subject": "--evil"})


def test_a_dash_is_let_through_where_the_definition_says_so():
    argv = ["prog", "{payload.p}", "{payload.q}"]
    assert render(argv, ["payload.p"], p="-5", q="x") == ["prog", "-5", "x"]
    with pytest.raises(InvalidPayload, match=r"payload\.q"):
        render(argv, ["payload.p"], p="-5", q="-x")


def test_a_dash_behind_literal_text_is_harmless():
    assert render(["prog", "--depth={payload.p}", "x{payload.p}"], p="-1") == ["prog", "--depth=-1", "x-1"]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "starts with a program"),
        ("prog", "starts with a program"),
        (None, "starts with a program"),
        (["{payload.program}"], "must be a fixed text"),
        (["run-{tenant_id}"], "must be a fixed text"),
        ([["prog", "{payload.p?}"]], "must be a fixed text"),
        ([" "], "name of a program"),
        (["-x"], "name of a program"),
        (["prog", 7], "strings"),
        (["prog", []], "strings"),
        (["prog", ["a", ["b"]]], "strings"),
        (["prog", ["a", "b"]], "never omitted"),
        (["prog", ["a", "{payload.p}"]], "never omitted"),
        (["prog", "a\x00"], "NUL"),
        (["prog", "{payload.p?}"], "list of its own"),
        (["prog", "{if payload.p}"], "list of its own"),
        (["prog", ["x{if payload.p}"]], "must be a separate element"),
        (["prog", ["{if payload.p?}"]], "takes neither"),
        (["prog", "{nothing}"], "{nothing}: invalid placeholder"),
        (["prog", "{env.HOME}"], "{env.HOME}: invalid placeholder"),
        (["prog", "{tenant_id.x}"], "no fields"),
        (["prog", "{payload}"], "name a field"),
        (["prog", "{payload.}"], "invalid placeholder"),
        (["prog", "{payload.a b}"], "invalid placeholder"),
        (["prog", "{payload.p|sh}"], "invalid placeholder"),
        (["prog", "{}"], "invalid placeholder"),
        (["prog", "{payload.p"], "single {"),
        (["prog", "payload.p}"], "single }"),
        (["prog", "{payload.a*}{payload.b*}"], "two lists"),
        (["prog", "-{payload.p}"], "option's name"),
        (["prog", "--{payload.p}"], "option's name"),
        (["prog", "--out{payload.p}"], "option's name"),
        (["sh", "-c", "echo {payload.p}"], "code"),
        (["/bin/bash", "-ec", "echo {payload.p}"], "code"),
        (["env", "A=1", "sh", "-c", "{payload.p}"], "code"),
        (["python3", "-c", "print({payload.p})"], "code"),
        (["node", "--eval", "{payload.p}"], "code"),
        (["node", "--eval={payload.p}"], "code"),
    ],
)
def test_a_wrong_template_is_refused_when_it_is_made(argv, says):
    with pytest.raises(InvalidCommand, match=says):
        parse_template(argv)


def test_values_may_be_arguments_of_a_script():
    argv = ["sh", "-c", 'echo "$1"', "sh", "{payload.p}"]
    assert render(argv, p="x") == ["sh", "-c", 'echo "$1"', "sh", "x"]


def test_allow_dash_names_a_placeholder_that_is_used():
    with pytest.raises(InvalidCommand, match=r"payload\.q"):
        parse_template(["prog", "{payload.p}"], ["payload.q"])
