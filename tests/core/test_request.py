"""A request to enqueue is checked before anything is sent."""

import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from posthouse import Request, Retry
from posthouse.errors import ConfigurationError, InvalidJob, InvalidPayload, PosthouseError

JOB = UUID("0190c000-0000-7000-8000-000000000001")
OTHER = UUID("0190c000-0000-7000-8000-000000000002")


def sent(request, *, verify=False):
    return json.loads(request.to_json(JOB, verify=verify, payload_limit=10_000))


def test_a_kind_is_enough():
    assert sent(Request(kind="welcome")) == {
        "id": str(JOB),
        "kind": "welcome",
        "tenant_id": "default",
        "on_duplicate": "existing",
        "on_dependency_failure": "cancel",
        "source": "manual",
        "payload": {},
    }


def test_every_option_is_sent():
    at = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    fields = sent(
        Request(
            kind="welcome",
            payload={"a": [1, "ü"]},
            tenant="acme",
            queue="mail",
            priority="high",
            at=at,
            dedupe_key="k",
            dedupe_content=True,
            dedupe_window="1h",
            on_duplicate="replace",
            order_key="o",
            depends_on=[OTHER],
            on_dependency_failure="run",
            max_attempts=7,
            timeout="90s",
            retry=Retry("1s", "2s"),
            correlation_id="c",
            subject="s",
            source="event",
            source_ref="r",
            created_by="me",
            parent_id=OTHER,
        ),
        verify=True,
    )
    assert datetime.fromisoformat(fields.pop("scheduled_for")) == at
    assert fields == {
        "id": str(JOB),
        "kind": "welcome",
        "payload": {"a": [1, "ü"]},
        "tenant_id": "acme",
        "queue": "mail",
        "priority": 50,
        "dedupe_key": "k",
        "dedupe_content": True,
        "dedupe_window": 3600,
        "on_duplicate": "replace",
        "order_key": "o",
        "depends_on": [str(OTHER)],
        "on_dependency_failure": "run",
        "max_attempts": 7,
        "timeout_seconds": 90,
        "retry": {"ladder": [1, 2], "jitter": 0},
        "correlation_id": "c",
        "subject": "s",
        "source": "event",
        "source_ref": "r",
        "created_by": "me",
        "parent_id": str(OTHER),
        "verify": True,
    }


@pytest.mark.parametrize(
    ("name", "number"), [("urgent", 10), ("HIGH", 50), ("normal", 100), ("low", 200), (7, 7)]
)
def test_a_priority_is_a_name_or_a_number(name, number):
    assert sent(Request(kind="x", priority=name))["priority"] == number


def test_a_retry_ladder_brings_its_attempts_unless_told_otherwise():
    assert sent(Request(kind="x", retry=Retry("1s", "2s", "3s")))["max_attempts"] == 4
    assert sent(Request(kind="x", retry=Retry("1s"), max_attempts=9))["max_attempts"] == 9


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": ""},
        {"kind": "x" * 513},
        {"kind": "a\x00b"},
        {"queue": ""},
        {"queue": "a\nb"},
        {"tenant": ""},
        {"tenant": "a\ud800"},
        {"dedupe_key": ""},
        {"dedupe_key": "\x1f"},
        {"order_key": "\x7f"},
        {"correlation_id": "\x00"},
        {"subject": "\x00"},
        {"source_ref": "\x00"},
        {"created_by": "\ud800"},
        {"at": datetime(2026, 3, 1)},  # noqa: DTZ001 - that is the point
        {"at": datetime(2026, 3, 1, tzinfo=UTC), "delay": "1s"},
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 10**7},
        {"on_duplicate": "ignore"},
        {"on_dependency_failure": "explode"},
        {"source": "elsewhere"},
        {"priority": "asap"},
        {"priority": 2**31},
        {"priority": -(2**31) - 1},
    ],
    ids=str,
)
def test_a_wrong_request_is_refused(wrong):
    with pytest.raises(InvalidJob) as caught:
        sent(Request(**{"kind": "x", **wrong}))
    assert next(iter(wrong)) in str(caught.value) or "time" in str(caught.value)


@pytest.mark.parametrize("text", ["Müller\u00a0GmbH", "東京\u3000支店", "a b", "🚀", "e\u0301"])
def test_text_in_any_language_is_taken(text):
    assert sent(Request(kind="x", subject=text, dedupe_key=text))["subject"] == text


@pytest.mark.parametrize("wrong", [{"delay": "-1s"}, {"timeout": "soon"}, {"dedupe_window": "x"}], ids=str)
def test_a_wrong_duration_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        sent(Request(kind="x", **wrong))


def test_a_wrong_payload_is_refused():
    with pytest.raises(InvalidPayload):
        sent(Request(kind="x", payload={"a": float("nan")}))


def test_every_refusal_is_an_error_of_ours():
    with pytest.raises(PosthouseError):
        Request(kind="")


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({}, True),
        ({"priority": 3, "subject": "s", "retry": Retry("1s")}, True),
        ({"id": JOB}, False),
        ({"dedupe_key": "k"}, False),
        ({"dedupe_content": True}, False),
        ({"order_key": "k"}, False),
        ({"depends_on": [JOB]}, False),
        ({"delay": "1s"}, False),
        ({"at": datetime(2026, 3, 1, tzinfo=UTC)}, False),
    ],
    ids=str,
)
def test_only_what_needs_a_mere_insert_is_plain(options, plain):
    assert Request(kind="x", **options).plain is plain


def test_an_unknown_option_is_rejected():
    with pytest.raises(TypeError, match="unexpected keyword argument 'tennant'"):
        Request(kind="x", tennant="acme")


def test_a_request_cannot_be_changed():
    request = Request(kind="x", priority=3)
    for name in ("priority", "queue"):
        with pytest.raises(FrozenInstanceError):
            setattr(request, name, 4)


def test_a_changed_request_keeps_its_other_options():
    request = Request(kind="x", payload={"n": 1}, priority=3)
    assert request.changed(queue="mail") == Request(kind="x", payload={"n": 1}, priority=3, queue="mail")
    assert Request(kind="x").changed() == Request(kind="x")


def test_a_given_default_equals_an_omitted_option():
    given, omitted = Request(kind="x", queue=None, tenant="default"), Request(kind="x")
    assert given == omitted
    assert given.plain
    assert omitted.plain
