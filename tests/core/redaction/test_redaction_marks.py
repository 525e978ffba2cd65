"""Where a schema, a path or a name says that secrets are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.core.redaction import MASK, Redactor

SECRET = "cAnArY7Secret9"


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"properties": {"a": {"writeOnly": True}}}, {"a": SECRET}),
        ({"properties": {"a": {"x-secret": True}}}, {"a": SECRET}),
        ({"properties": {"a": {"type": "string", "format": "password"}}}, {"a": SECRET}),
        ({"properties": {"a": {"x-secret": True}}}, {"a": {"deep": [SECRET]}}),
        ({"properties": {"a": {"items": {"x-secret": True}}}}, {"a": [SECRET]}),
        ({"properties": {"a": {"prefixItems": [{}, {"x-secret": True}]}}}, {"a": ["x", SECRET]}),
        ({"additionalProperties": {"x-secret": True}}, {"b": SECRET}),
        ({"patternProperties": {"^s_": {"x-secret": True}}}, {"s_1": SECRET}),
        ({"allOf": [{"properties": {"a": {"x-secret": True}}}]}, {"a": SECRET}),
        ({"anyOf": [{}, {"properties": {"a": {"x-secret": True}}}]}, {"a": SECRET}),
        ({"if": {}, "then": {"properties": {"a": {"x-secret": True}}}}, {"a": SECRET}),
        ({"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": {"x-secret": True}}}, {"a": SECRET}),
        (
            {"properties": {"a": {"$ref": "#s"}}, "$defs": {"s": {"$anchor": "s", "x-secret": True}}},
            {"a": SECRET},
        ),
        (
            {
                "$ref": "#/$defs/n",
                "$defs": {"n": {"properties": {"s": {"x-secret": True}, "next": {"$ref": "#/$defs/n"}}}},
            },
            {"next": {"next": {"s": SECRET}}},
        ),
    ],
)  # fmt: skip
def test_what_a_schema_marks_is_masked(schema, payload):
    assert SECRET not in str(Redactor(schema).value(payload))
    assert SECRET not in Redactor(schema).text(f"it was {SECRET}", Redactor(schema).secrets(payload))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/no/where"},
        {"$ref": "https://x/y"},
        {"allOf": 7},
        {"properties": []},
        [],
        True,
    ],
)
def test_a_strange_schema_does_no_harm(schema):
    marked = {"allOf": [schema], "properties": {"a": {"x-secret": True}}}
    assert Redactor(marked).value({"a": SECRET, "b": {"c": 1}}) == {"a": MASK, "b": {"c": 1}}


@pytest.mark.parametrize(
    ("path", "payload"),
    [
        ("iban", {"iban": SECRET}),
        ("user.iban", {"user": {"iban": SECRET}}),
        ("payload.user.iban", {"user": {"iban": SECRET}}),
        ("$.user.iban", {"user": {"iban": SECRET}}),
        ("cards[].number", {"cards": [{"number": SECRET}]}),
        ("cards[0].number", {"cards": [{"number": SECRET}]}),
        ("cards.*.number", {"cards": [{"number": SECRET}]}),
        ("*.iban", {"anyone": {"iban": SECRET}}),
        ("/user/iban", {"user": {"iban": SECRET}}),
        ("user", {"user": {"a": {"b": SECRET}}}),
    ],
)
def test_what_a_path_names_is_masked(path, payload):
    assert SECRET not in str(Redactor(redact=[path]).value(payload))


def test_what_no_mark_names_is_shown_as_it_is():
    payload = {"user": {"iban": SECRET, "name": "Ada"}, "list": [1, 2.5, None, True, "text"]}
    shown = Redactor(redact=["user.iban"]).value(payload)
    assert shown == {"user": {"iban": MASK, "name": "Ada"}, "list": [1, 2.5, None, True, "text"]}


def test_a_secret_is_also_masked_where_the_payload_repeats_it():
    shown = Redactor().value({"password": SECRET, "note": f"it is {SECRET}", SECRET: 1})
    assert SECRET not in str(shown)


def test_a_secret_number_is_masked_in_texts():
    redactor = Redactor(redact=["account"])
    assert redactor.text("no account 4711000", redactor.secrets({"account": 4711000})) == f"no account {MASK}"


def test_the_value_that_was_given_stays_as_it_is():
    payload = {"password": SECRET, "list": [{"token": SECRET}]}
    Redactor().value(payload)
    assert payload == {"password": SECRET, "list": [{"token": SECRET}]}


def test_a_schema_is_shown_without_defaults_and_examples_of_what_it_marks():
    schema = {
        "properties": {
            "a": {"x-secret": True, "default": SECRET, "examples": [SECRET]},
            "password": {"type": "string", "default": SECRET},
            "b": {"default": "shown"},
        }
    }
    shown = Redactor().schema(schema)
    assert SECRET not in str(shown)
    assert shown["properties"]["b"] == {"default": "shown"}
    assert shown["properties"]["password"]["type"] == "string"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_any_payload_can_be_masked_and_masking_twice_changes_nothing_more(value):
    redactor = Redactor(redact=["a.b", "*.c"])
    once = redactor.value(value)
    assert redactor.value(once) == once


@given(json_values, st.sampled_from(["password", "accessToken", "api-key"]))
def test_a_secret_is_masked_wherever_it_stands_in_a_payload(value, name):
    shown = Redactor().value({"deep": [value, {name: SECRET}], "other": value})
    assert SECRET not in str(shown)
