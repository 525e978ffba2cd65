"""Schemas and payloads whose validation or masking would take minutes."""

from __future__ import annotations

import json
import random
import threading

import psycopg
import pytest
from psycopg.types.json import Jsonb

from posthouse.core.redaction import MASK, PLAIN, Redactor, Secrets
from posthouse.core.schema import PayloadSchema
from posthouse.errors import InvalidDefinition
from posthouse.waiting import off_loop

RECURSIVE = {
    "oneOf": [
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#"}}, "minProperties": 1},
    ]
}
EXPRESSION = {
    "$ref": "#/$defs/any",
    "$defs": {
        "any": {"oneOf": [{"$ref": "#/$defs/add"}, {"$ref": "#/$defs/not"}, {"type": "number"}]},
        "add": {"type": "object", "properties": {"op": {"const": "add"}, "of": {"$ref": "#/$defs/all"}}},
        "not": {"type": "object", "properties": {"op": {"const": "not"}, "of": {"$ref": "#/$defs/all"}}},
        "all": {"items": {"$ref": "#/$defs/any"}},
    },
}


def chain(length):
    """Each definition has two alternatives, both of which refer to the next one."""
    refer = [{"properties": {"a": {"$ref": f"#/$defs/n{n + 1}"}}} for n in range(length)]
    steps = {f"n{n}": {"oneOf": [refer[n], {**refer[n], "minProperties": 1}]} for n in range(length)}
    return {"$ref": "#/$defs/n0", "$defs": {**steps, f"n{length}": {}}}


def nested(depth):
    return {"a": nested(depth - 1)} if depth else {}


def store(hostile_server, key, schema):
    """Store a definition past all checks, as an older version may have."""
    with psycopg.connect(hostile_server.database, autocommit=True) as connection:
        connection.execute(
            "insert into posthouse.definitions (key, schema, updated_at) values (%s, %s, now())",
            (key, Jsonb(schema)),
        )


def test_a_schema_whose_alternatives_multiply_is_not_stored(hostile_server):
    new = {"key": "chained", "command": {"argv": ["true"]}, "arg_schema": chain(30)}
    answer = hostile_server.client("super-admin").post("/api/v1/admin/jobs/definitions", json=new)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_definition")
    assert "too expensive" in answer.json()["detail"]


def test_an_enqueue_does_not_hang_on_a_schema_that_was_stored_earlier(hostile_server):
    store(hostile_server, "chained-before", chain(30))
    job = {"definition_key": "chained-before", "payload": nested(30)}
    answer = hostile_server.client("tenant-admin").post("/api/v1/jobs", json=job)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_definition")


def test_a_recursive_schema_is_checked_within_a_budget(hostile_server):
    store(hostile_server, "recursive", RECURSIVE)
    client = hostile_server.client("tenant-admin")
    deep = client.post("/api/v1/jobs", json={"definition_key": "recursive", "payload": nested(40)})
    assert (deep.status_code, deep.json()["code"]) == (422, "invalid_payload")
    assert "less nested payload" in deep.json()["detail"]
    wrong = client.post("/api/v1/jobs", json={"definition_key": "recursive", "payload": nested(10)})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_payload")
    assert client.post("/api/v1/jobs", json={"definition_key": "recursive"}).status_code == 201


def test_ordinary_recursive_schemas_take_deep_and_long_payloads():
    tree = PayloadSchema({"properties": {"of": {"items": {"$ref": "#"}}, "size": {"type": "integer"}}})
    deep = leaf = {"size": 1}
    for _ in range(90):
        deep = {"of": [deep]}
    assert tree.errors_in(json.dumps({"of": [leaf] * 30_000})) == []
    assert tree.errors_in(json.dumps(deep)) == []
    deep = 1
    for _ in range(12):
        deep = {"op": "add", "of": [deep, 1]}
    assert PayloadSchema(EXPRESSION).errors_in(json.dumps(deep)) == []


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"properties": {f"p{n}": {"type": "string"} for n in range(3000)}}, "at most 2,000 subschemas"),
        (json.loads('{"not":' * 150 + "{}" + "}" * 150), "at most 100 levels"),
    ],
)
def test_the_size_of_a_schema_is_limited(schema, reason):
    with pytest.raises(InvalidDefinition, match=reason):
        PayloadSchema(schema)


def test_many_wrong_values_are_one_error():
    listed = PayloadSchema({"additionalProperties": {"enum": [f"value {n}" for n in range(2000)]}})
    (fault,) = listed.errors_in(json.dumps({f"k{n}": "x" for n in range(20_000)}))
    assert fault.path == "k0"


def test_a_payload_with_thousands_of_secrets_is_masked(hostile_server):
    secrets = {f"password{n}": f"hunter-{n:05}" for n in range(5_000)}
    payload = {**secrets, "about": "hunter-00001, hunter-04999 and 75", **{f"pin{n}": n for n in range(100)}}
    client = hostile_server.client("tenant-admin")
    job = client.post("/api/v1/jobs", json={"definition_key": "noop", "payload": payload}).json()
    shown = client.get(f"/api/v1/jobs/{job['id']}")
    assert shown.status_code == 200
    assert "hunter-" not in shown.text
    assert set(shown.json()["payload"].values()) >= {MASK}


def test_a_payload_with_many_keys_and_a_schema_with_marks_is_masked():
    marked = Redactor({"properties": {"a": {"writeOnly": True}}, "additionalProperties": {"type": "string"}})
    payload = {f"k{n}": "v" for n in range(25_000)}
    assert marked.value({**payload, "a": "secret-a", "b": "of secret-a"}) == {
        **payload, "a": MASK, "b": f"of {MASK}",
    }  # fmt: skip


def test_many_secrets_are_masked_like_few():
    chance = random.Random(7)
    words = ["".join(chance.choices("abcAB-_9", k=chance.randint(3, 12))) for _ in range(400)]
    text = " ".join(chance.choices([*words, "and", "(", "x_"], k=2000))
    many = Secrets(words)
    masked = many.mask(text)
    assert masked.count(MASK) > 1000
    for word in words:
        few = Secrets([word])
        assert few.mask(masked) == masked, word


async def test_large_data_is_masked_in_a_thread():
    def where():
        return threading.current_thread() is threading.main_thread()

    assert await off_loop(where, data={"a": [1, 2]})
    assert not await off_loop(where, data={f"k{n}": n for n in range(2000)})
    assert not await off_loop(where, data={"text": "x" * 200_000})
    assert PLAIN.value({"a": 1}) == {"a": 1}
