"""Payloads and results as JSON that Postgres will take."""

import json
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from posthouse.core.payload import MAX_DEPTH, encode_payload, encode_result
from posthouse.errors import InvalidPayload, InvalidResult, PayloadTooLarge

LIMIT = 1_048_576
SURROGATE = "\ud800"

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(st.characters(codec=None)),
    st.binary(max_size=20),
    st.datetimes(),
    st.uuids(),
    st.complex_numbers(),
)
keys = st.one_of(st.text(st.characters(codec=None), max_size=5), st.integers(), st.none())
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.tuples(inner, inner),
    ),
    max_leaves=20,
)
texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def nested(levels, make):
    value = make(None)
    for _ in range(levels - 1):
        value = make(value)
    return value


def in_list(value):
    return [value]


def in_dict(value):
    return {"k": value}


@given(st.dictionaries(texts, json_values))
def test_a_json_object_comes_back_equal(payload):
    assert json.loads(encode_payload(payload, LIMIT)) == payload


def test_a_mapping_that_is_no_dict_is_taken():
    assert encode_payload(MappingProxyType({"a": 1}), LIMIT) == '{"a":1}'


@pytest.mark.parametrize("payload", [None, [], "text", 7, [("a", 1)]])
def test_a_payload_is_an_object(payload):
    with pytest.raises(InvalidPayload, match="JSON object"):
        encode_payload(payload, LIMIT)


@pytest.mark.parametrize("payload", [{"a": "x\x00y"}, {"a\x00": 1}, {"a": [{"b": "\x00"}]}])
def test_a_nul_character_is_refused(payload):
    with pytest.raises(InvalidPayload, match="NUL"):
        encode_payload(payload, LIMIT)


def test_the_six_harmless_characters_of_an_escaped_nul_are_taken():
    payload = {"regex": "\\u0000", "path": "C:\\u0000\\x", "\\u0000": 1}
    assert json.loads(encode_payload(payload, LIMIT)) == payload


@pytest.mark.parametrize("payload", [{"a": f"x{SURROGATE}"}, {SURROGATE: 1}, {"a": [SURROGATE]}])
def test_a_lone_surrogate_is_refused(payload):
    with pytest.raises(InvalidPayload, match="surrogate"):
        encode_payload(payload, LIMIT)


def test_a_payload_over_the_limit_is_refused_with_both_numbers():
    with pytest.raises(PayloadTooLarge) as caught:
        encode_payload({"blob": "x" * 10_000_000}, LIMIT)
    assert "10,000,011" in str(caught.value)
    assert "1,048,576" in str(caught.value)


def test_the_limit_counts_bytes_and_is_inclusive():
    payload = {"a": "é"}
    assert len(encode_payload(payload, 10).encode()) == 10
    with pytest.raises(PayloadTooLarge):
        encode_payload(payload, 9)


@pytest.mark.parametrize("make", [in_list, in_dict])
@pytest.mark.parametrize("levels", [MAX_DEPTH, 300, 10_000])
def test_a_payload_nested_too_deep_is_refused(make, levels):
    with pytest.raises(InvalidPayload, match="nested"):
        encode_payload({"a": nested(levels, make)}, LIMIT)


@pytest.mark.parametrize("make", [in_list, in_dict])
def test_a_payload_just_not_too_deep_is_taken(make):
    payload = {"a": nested(MAX_DEPTH - 1, make)}
    assert json.loads(encode_payload(payload, LIMIT)) == payload


def test_many_brackets_in_text_are_not_depth():
    payload = {"code": "[" * 5_000 + '"\\', "list": [[] for _ in range(5_000)]}
    assert json.loads(encode_payload(payload, LIMIT)) == payload


def test_a_payload_that_contains_itself_is_refused():
    payload = {"a": []}
    payload["a"].append(payload)
    with pytest.raises(InvalidPayload, match="contains itself"):
        encode_payload(payload, LIMIT)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_does_not_have_are_refused(value):
    with pytest.raises(InvalidPayload, match="JSON does not support"):
        encode_payload({"a": {"b": [value]}}, LIMIT)


def test_texts_that_look_like_such_numbers_are_taken():
    payload = {"NaN": "NaN", "x": "Infinity -Infinity"}
    assert json.loads(encode_payload(payload, LIMIT)) == payload


def test_what_is_not_json_at_all_is_refused_with_its_type():
    with pytest.raises(InvalidPayload, match="object"):
        encode_payload({"a": object()}, LIMIT)


def test_bytes_that_are_not_text_are_refused():
    with pytest.raises(InvalidPayload):
        encode_payload({"a": b"\xff\xfe"}, LIMIT)


def test_common_types_are_written_as_people_expect():
    class Colour(Enum):
        RED = "red"

    class User(BaseModel):
        name: str
        seen: datetime

    moment = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    payload = {
        "at": moment,
        "day": date(2026, 3, 1),
        "id": UUID(int=7),
        "price": Decimal("9.90"),
        "colour": Colour.RED,
        "user": User(name="Ada", seen=moment),
        "pair": (1, 2),
        "for": timedelta(minutes=5),
    }
    assert json.loads(encode_payload(payload, LIMIT)) == {
        "at": "2026-03-01T12:30:00Z",
        "day": "2026-03-01",
        "id": "00000000-0000-0000-0000-000000000007",
        "price": "9.90",
        "colour": "red",
        "user": {"name": "Ada", "seen": "2026-03-01T12:30:00Z"},
        "pair": [1, 2],
        "for": "PT5M",
    }


def read_as_postgres_does(text):
    """Raises for what jsonb refuses: NUL, lone surrogates, constants that are not JSON."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    value = json.loads(text, parse_constant=refuse)
    again = json.dumps(value, ensure_ascii=False)
    again.encode()
    assert "\x00" not in again.replace("\\u0000", "\x00") or "\\\\u0000" in again
    return value


@given(anything)
def test_any_result_is_stored_or_refused_by_its_type(result):
    with suppress(InvalidResult):
        read_as_postgres_does(encode_result(result, LIMIT))


@given(json_values)
def test_a_result_that_is_json_is_stored_as_it_is(result):
    assert json.loads(encode_result(result, LIMIT)) == result


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        ("a\x00b", "a\\u0000b"),
        ({"k\x00": SURROGATE}, {"k\\u0000": "\\ud800"}),
        ([float("nan"), float("inf"), 1.5], ["NaN", "Infinity", 1.5]),
        (("x", 1), ["x", 1]),
        ({"at": date(2026, 11, 17), 3: "a\x00"}, {"at": "2026-11-17", "3": "a\\u0000"}),
    ],
)
def test_what_postgres_cannot_hold_is_stored_escaped(result, stored):
    assert json.loads(encode_result(result, LIMIT)) == stored


def test_a_result_over_the_limit_is_replaced_by_a_note():
    assert "limit is 1,000" in json.loads(encode_result("x" * 5_000, 1_000))["unstorable"]


@pytest.mark.parametrize("levels", [300, 10_000])
def test_a_result_nested_too_deep_is_stored_somehow(levels):
    read_as_postgres_does(encode_result(nested(levels, in_list), LIMIT))


def test_a_result_that_contains_itself_is_stored_somehow():
    result = []
    result.append(result)
    read_as_postgres_does(encode_result(result, LIMIT))


class Rude:
    """Answers every question about itself with an error that is awkward too."""

    def __repr__(self):
        raise ZeroDivisionError(f"rude\x00{SURROGATE}")

    __str__ = __repr__


@pytest.mark.parametrize("result", [Rude(), [Rude()], {"a": Rude()}, {Rude(): 1}, {"a": "\x00", "b": Rude()}])
def test_an_object_without_a_json_form_is_refused_by_its_type(result):
    with pytest.raises(InvalidResult, match=r"an object of type test_payload\.Rude, which cannot be stored"):
        encode_result(result, LIMIT)


@pytest.mark.parametrize(("result", "name"), [(object(), "object"), (b"\xff", "bytes"), (len, "builtin")])
def test_no_result_is_stored_as_the_text_of_an_object(result, name):
    with pytest.raises(InvalidResult, match=f"an object of type {name}"):
        encode_result(result, LIMIT)


def test_a_model_as_result_is_stored_as_its_fields_even_with_a_nul():
    class Reply(BaseModel):
        text: str

    assert json.loads(encode_result(Reply(text="fine"), LIMIT)) == {"text": "fine"}
    assert "\\u0000" in str(json.loads(encode_result(Reply(text="a\x00b"), LIMIT)))
