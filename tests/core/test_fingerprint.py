"""Fingerprints: the same fault with other values is the same failure; another fault is another one."""

import json
import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.core.failure import fingerprint, normalised
from posthouse.core.outcome import describe

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)
VALUES = {
    "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "uuid": st.uuids(),
    "address": st.integers(0x1000, 2**64).map(hex),
    "digest": st.binary(min_size=8, max_size=32).map(lambda raw: "a1" + raw.hex()),
    "quoted": st.text().map(repr),
    "moment": st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    "path": st.lists(WORDS, min_size=2).map(lambda names: "/" + "/".join(names)),
    "url": WORDS.map(lambda word: f"https://{word}.example/{word}?q=1"),
    "mail": WORDS.map(lambda word: f"{word}@example.org"),
}
MESSAGES = (
    "order {} of customer could not be charged",
    "no row with key {}",
    "while reading {}: the end came too soon",
    "({}) is out of range",
)


def error(message="broken", type_="ValueError", location="shop.tasks.charge"):
    return {"type": type_, "message": message, "location": location}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data(), message=st.sampled_from(MESSAGES))
def test_the_same_fault_with_another_value_has_the_same_fingerprint(kind, data, message):
    one, other = data.draw(VALUES[kind]), data.draw(VALUES[kind])
    assert fingerprint(error(message.format(one))) == fingerprint(error(message.format(other)))


@given(st.lists(st.integers(), min_size=1), st.lists(st.integers(), min_size=1))
def test_a_list_of_values_may_have_any_length(some, others):
    def error_of(ids):
        return error("unknown ids: " + ", ".join(map(str, ids)))

    assert fingerprint(error_of(some)) == fingerprint(error_of(others))


@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(WORDS, min_size=1, max_size=8))
def test_messages_with_other_words_are_other_faults(some, others):
    one, other = normalised(" ".join(some)), normalised(" ".join(others))
    same = fingerprint(error(" ".join(some))) == fingerprint(error(" ".join(others)))
    assert same == (one == other)
    if not any(set(word) <= set("abcdef") for word in some + others):  # those may be hexadecimal
        assert same == (some == others)


@given(st.text(max_size=5000))
def test_any_message_has_a_fingerprint_and_a_bounded_normal_form(message):
    assert len(fingerprint(error(message))) == 16
    assert len(normalised(message)) <= 300


def test_type_and_place_tell_faults_apart():
    faults = [error(), error(type_="KeyError"), error(location="shop.tasks.refund"), error("other words")]
    assert len({fingerprint(fault) for fault in faults}) == len(faults)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("exit code 1: no such file", "exit code 2: no such file"),
        (
            "Client error '404 Not Found' for url 'https://a'",
            "Client error '403 Forbidden' for url 'https://a'",
        ),
        ("the server answered with status 500", "the server answered with status 503"),
        ("HTTP 429", "HTTP 401"),
        ("the command was killed by SIGSEGV", "the command was killed by SIGKILL (possibly out of memory)"),
    ],
)
def test_codes_that_name_the_fault_count(one, other):
    assert fingerprint(error(one)) != fingerprint(error(other))


def test_a_value_longer_than_what_is_read_does_not_count():
    assert fingerprint(error(f"cannot read '{'a ' * 5000}'")) == fingerprint(
        error(f"cannot read '{'b ' * 9000}'")
    )


@pytest.mark.parametrize("type_", ["TimedOut", "WorkerLost", "Poison", "DependencyFailed"])
def test_posthouse_errors_are_grouped_by_type_alone(type_):
    one, other = (error(f"worker {uuid.uuid4()} {word}", type_) for word in ("stopped", "is gone"))
    assert fingerprint(one) == fingerprint(other)


def raised(source, path="/srv/shop/tasks.py"):
    """How an error is described that ``charge`` of such a module raises."""
    space = {"__name__": "shop.tasks"}
    exec(compile(source, path, "exec"), space)  # a module of the test's own
    try:
        space["charge"]()
    except Exception as error:  # noqa: BLE001
        return describe(error.with_traceback(error.__traceback__.tb_next))  # without this function
    raise AssertionError("nothing was raised")


FAULT = "def charge():\n    raise ValueError('no')\n"


def test_the_place_survives_edits_above_it():
    before, after = raised(FAULT), raised("import os\n\n\n\n" + FAULT)
    assert before["location"] == after["location"] == "shop.tasks.charge"
    assert before["traceback"] != after["traceback"]
    assert fingerprint(before) == fingerprint(after)


def test_the_place_is_in_the_users_code_not_in_the_library_that_raised():
    found = raised(
        "import json\ndef charge():\n    return decode('nope')\ndef decode(text):\n    json.loads(text)\n"
    )
    assert found["type"] == "json.decoder.JSONDecodeError"
    assert found["location"] == "shop.tasks.decode"


def test_code_that_is_installed_as_a_package_is_the_users_if_the_handler_lives_there():
    library = "/venv/lib/python3/site-packages/shop/tasks.py"
    found = raised("import json\ndef charge():\n    json.loads('nope')\n", library)
    assert found["location"] == "shop.tasks.charge"


def test_a_method_is_named_with_its_class():
    till = "class Till:\n    def open(self):\n        raise OSError('shut')\n"
    found = raised(till + "def charge():\n    Till().open()\n")
    assert found["location"] == "shop.tasks.Till.open"


def test_an_error_that_was_never_raised_has_no_place():
    assert "location" not in describe(ValueError("returned"))


def test_an_error_survives_json():
    found = raised(FAULT)
    assert fingerprint(json.loads(json.dumps(found))) == fingerprint(found)
