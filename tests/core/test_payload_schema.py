"""JSON Schemas of payloads."""

import json
import socket
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pydantic import TypeAdapter

from posthouse.core.schema import MAX_ERRORS, PayloadSchema, compile_schema
from posthouse.errors import InvalidDefinition


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"properties": {"a": {"type": "integer"}}}, {"a": "x"}, 'payload.a: "x" is not of type "integer"'),
        ({"properties": {"a": {"items": {"minimum": 3}}}}, {"a": [5, 1]}, "payload.a[1]: 1 is less than"),
        ({"properties": {"a b": {"type": "null"}}}, {"a b": 1}, 'payload["a b"]: 1 is not'),
        ({"required": ["a"]}, {}, 'payload: "a" is a required property'),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1},
            "payload: Additional properties are not allowed",
        ),
    ],
)
def test_a_problem_says_where_and_what(schema, value, problem):
    (found,) = PayloadSchema(schema).error_messages(value)
    assert found.startswith(problem)


def test_no_more_than_ten_problems_are_named():
    found = PayloadSchema({"items": {"type": "null"}}).error_messages([1] * 50)
    assert len(found) == MAX_ERRORS == 10


def test_a_long_value_does_not_drown_what_is_wrong_with_it():
    (found,) = PayloadSchema({"properties": {"a": {"type": "null"}}}).error_messages({"a": "x" * 10_000})
    assert len(found) < 400
    assert found.endswith('is not of type "null"')


@pytest.mark.parametrize("text", ["{}", '{"type": "object"}'])
def test_a_schema_that_allows_everything_costs_nothing(text):
    assert compile_schema(text) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"minLength": -1},
        {"$schema": "https://example.com/own-meta-schema"},
        {"pattern": "(?=look)ahead"},
        {"pattern": r"(a)\1"},
        {"pattern": "((((a{1,100}){1,100}){1,100}){1,100})"},
        {"$ref": "#/$defs/missing"},
    ],
)
def test_an_unusable_schema_is_refused(schema):
    with pytest.raises(InvalidDefinition, match="invalid JSON Schema"):
        PayloadSchema(schema)


def test_a_schema_nested_without_end_is_refused():
    schema = {}
    for _ in range(5000):
        schema = {"properties": {"a": schema}}
    with pytest.raises(InvalidDefinition):
        PayloadSchema(schema)


def test_a_reference_is_never_fetched():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        for keyword in ("$ref", "$dynamicRef"):
            with pytest.raises(InvalidDefinition):
                PayloadSchema({keyword: address})
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_pattern_that_would_take_others_forever_does_not():
    schema = PayloadSchema({"pattern": "^(a+)+$"})
    assert not schema.accepts("a" * 100_000 + "b")


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {"not": {"$ref": "#"}}]
)
def test_a_schema_that_refers_to_itself_comes_to_an_end(schema):
    PayloadSchema(schema).error_messages({"a": {"b": [1, 2]}})


def test_the_same_text_is_compiled_once():
    text = json.dumps({"required": ["once"]})
    assert compile_schema(text) is compile_schema(text)


@pytest.mark.parametrize(
    "draft", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("uuid", ["8B2F9a52-8f6e-4a0c-9d0e-111111111111"], ["not-a-uuid", "", "8b2f9a52"]),
        ("date-time", ["2026-01-31T10:00:00Z", "2026-01-31T10:00:00.5+02:00", "2026-01-31T10:00:00"],
         ["soon", "2026-02-30T10:00:00Z", "2026-01-31", "2026-01-31T25:00:00Z"]),
        ("time", ["10:00:00", "10:00:00Z"], ["10", "25:00:00"]),
        ("date", ["2026-01-31"], ["2026-02-30", "today"]),
        ("duration", ["PT3S", "-P1DT0.5S", "P2W"], ["3 s", "P", "PT"]),
        ("email", ["a@example.com"], ["a"]),
        ("uri", ["https://example.com/"], ["example"]),
        ("ipv4", ["10.0.0.1"], ["10.0.0.256"]),
    ],
)  # fmt: skip
def test_a_format_is_an_assertion(draft, name, good, bad):
    schema = PayloadSchema({"$schema": draft, "format": name})
    assert [value for value in [*good, *bad] if schema.accepts(value)] == good
    assert f'is not a "{name}"' in schema.error_messages(bad[0])[0]


def test_handlers_take_over_http_what_their_types_write():
    @dataclass
    class Arguments:
        at: datetime
        day: date
        hour: time
        span: timedelta
        who: UUID
        where: Path
        address: IPv4Address

    adapter = TypeAdapter(Arguments)
    arguments = Arguments(
        datetime.fromisoformat("2026-01-31T10:00:00.0005"), date(2026, 1, 31), time(10, 30),
        timedelta(seconds=-1.5), uuid4(), Path("a"), IPv4Address("10.0.0.1"),
    )  # fmt: skip
    written = json.loads(adapter.dump_json(arguments))
    assert PayloadSchema(adapter.json_schema()).error_messages(written) == []
