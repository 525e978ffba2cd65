"""The filter language by itself: lines to filters and back, what is wrong with a line, what is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from posthouse.core.filters import FIELDS, completion_at, format_filter, parse_filter, plan_search
from posthouse.core.filters.parser import MAX_LENGTH, MAX_TERMS, MAX_VALUES
from posthouse.core.ids import first_id_at
from posthouse.core.states import Status
from posthouse.errors import InvalidFilter

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def search(line, **options):
    return plan_search(parse_filter(line), NOW, **options)


def condition(line):
    [found] = search(line).conditions
    return found


@pytest.mark.parametrize(
    "line",
    [
        "status:failed,dead_letter",
        "-status:queued kind:ocr",
        'subject:"my video",plain',
        'subject:"a,b" kind:"x*" kind:x*',
        r'error:"say \"hi\" \\ twice"',
        "payload.video.id:42",
        'payload.id:"42",true,null,>3,ab*,*',
        "created:<2h finished:>1h30m",
        "created:2026-11-01..2026-11-02 finished:..2026-11-03 created:1h..2h",
        "created:2026-11-01T12:30:00+01:00",
        "attempts:>1,5..7 priority:high,<=20",
        "id:0192f3a4-1",
        '0192f3a4 -word "two words" "a:b" "-x"',
        "",
    ],
)
def test_a_line_is_read_and_written_again(line):
    assert format_filter(parse_filter(line)) == line


@pytest.mark.parametrize(
    ("line", "canonical"),
    [
        ("  kind:a   kind:b ", "kind:a kind:b"),
        ("STATUS:Failed", "status:failed"),
        ("definition_key:a correlation_id:b last_error:c", "kind:a correlation:b error:c"),
        ("0192f…", "0192f"),
        ("id:0192F3A4*", "id:0192F3A4"),
    ],
)
def test_the_same_filter_has_one_line(line, canonical):
    assert format_filter(parse_filter(line)) == canonical
    assert parse_filter(canonical) == parse_filter(format_filter(parse_filter(line)))


@pytest.mark.parametrize(
    ("line", "position", "says", "suggestion"),
    [
        ("stat:failed", (0, 4), "did you mean status", "status"),
        ("zzzz:1", (0, 4), "the fields are status, kind", None),
        ("kind:a status:faild", (14, 19), "did you mean failed", "failed"),
        ("source:xyz", (7, 10), "choose from manual", None),
        ("kind:", (5, 5), "missing", None),
        ("kind:a,,b", (7, 7), "missing", None),
        ("kind:a, b", (7, 7), "missing", None),
        ("-", (1, 1), "write a word", None),
        ('subject:"my video', (8, 17), "closing quote", '"my video"'),
        ("created:2h", (8, 10), "created:<2h", "<2h"),
        ("created:soon", (8, 12), "is not a time", None),
        ("created:<soon", (8, 13), "is not a time", None),
        ("created:<2hours", (8, 15), "is not a time", None),
        ("created:..", (8, 10), "omit one end", None),
        ("created:2026-11-02..2026-11-01", (8, 30), "ends before", "2026-11-01..2026-11-02"),
        ("created:0001-01-01", (8, 18), "between the years", None),
        ("attempts:many", (9, 13), "is not a number", None),
        ("attempts:5..2", (9, 13), "ends before", "2..5"),
        ("attempts:99999999999", (9, 20), "is not a number", None),
        ("id:xyz", (3, 6), "not a job id", None),
        ("id:0192-f3a4", (3, 12), "not a job id", None),
        ("kind.x:1", (0, 6), "has no parts", "kind"),
        ("payload:1", (0, 7), "payload.video_id:42", None),
        ("payload.a..b:1", (0, 12), "payload.video_id:42", None),
        ("payload.api_key:1", (0, 15), "is masked", None),
        ("a\x00", (1, 2), "invalid character", None),
        ("k" * 600, (0, 600), "limited to 512", None),
    ],
)
def test_errors_name_the_position_and_suggest_a_correction(line, position, says, suggestion):
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(line)
    assert ((caught.value.at, caught.value.to), caught.value.suggestion) == (position, suggestion)
    assert says in str(caught.value)
    assert f"at {position[0]}" in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "x " * MAX_LENGTH,
        " ".join(["kind:a"] * (MAX_TERMS + 1)),
        "kind:" + ",".join(["a"] * (MAX_VALUES + 1)),
    ],
)
def test_a_filter_is_no_longer_than_it_may_be(line):
    with pytest.raises(InvalidFilter, match="limited to"):
        parse_filter(line)


@pytest.mark.parametrize(
    ("value", "low", "below"),
    [
        ("<2h", NOW - 2 * HOUR, None),
        (">2h", None, NOW - 2 * HOUR),
        ("1h..2h", NOW - 2 * HOUR, NOW - HOUR),
        ("2h..1h", NOW - 2 * HOUR, NOW - HOUR),
        ("1h..", None, NOW - HOUR),
        ("..1h", NOW - HOUR, None),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)),
        (">2026-11-01", datetime(2026, 11, 2, tzinfo=UTC), None),
        (">=2026-11-01", datetime(2026, 11, 1, tzinfo=UTC), None),
        ("<2026-11-01", None, datetime(2026, 11, 1, tzinfo=UTC)),
        ("<=2026-11-01", None, datetime(2026, 11, 2, tzinfo=UTC)),
        ("2026-11-01..2026-11-02", datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC)),
        (">2026-11-01T13:00+01:00", datetime(2026, 11, 1, 12, tzinfo=UTC), None),
        ("<9999999w", datetime(2, 1, 1, tzinfo=UTC), None),
    ],
)
def test_times(value, low, below):
    [span] = condition(f"created:{value}")["ranges"]
    assert span == {"low": low and low.isoformat(), "below": below and below.isoformat()}


@pytest.mark.parametrize(
    ("value", "low", "below"),
    [
        ("3", 3, 4),
        (">1", 2, None),
        (">=1", 1, None),
        ("<3", None, 3),
        ("<=3", None, 4),
        ("2..5", 2, 6),
        ("2..", 2, None),
    ],
)
def test_numbers(value, low, below):
    assert condition(f"attempts:{value}")["ranges"] == [{"low": low, "below": below}]


@pytest.mark.parametrize(
    ("term", "path"),
    [
        ("payload.a.b:42", '$."a"."b" ? (@ == "42" || @ == 42)'),
        ('payload.a:"42"', '$."a" ? (@ == "42")'),
        ("payload.a:007", '$."a" ? (@ == "007")'),
        ("payload.a:x,true", '$."a" ? (@ == "x" || @ == "true" || @ == true)'),
        ("payload.a:>1.5", '$."a" ? (@ > 1.5)'),
        ("payload.a:ab*", '$."a" ? (@ starts with "ab")'),
        ("payload.a:*", '$."a"'),
        (r'payload.a:"\") || (true"', r'$."a" ? (@ == "\") || (true")'),
    ],
)
def test_values_in_a_payload_are_what_they_may_be_meant_as(term, path):
    assert condition(term)["path"] == path


def test_patterns_in_values_are_no_patterns():
    assert condition('error:"50%_"')["like"] == [r"%50\%\_%"]
    assert condition("kind:a_b*") == {"field": "kind", "exact": [], "like": [r"a\_b%"], "negated": False}


@pytest.mark.parametrize(
    ("line", "statuses"),
    [
        ("status:failed", {"failed"}),
        ("-status:failed,queued status:failed,canceled", {"canceled"}),
        ("finished:<1h", {"succeeded", "failed", "canceled", "dead_letter"}),
        ("fingerprint:ab", {"failed", "canceled", "dead_letter"}),
        ("error:x", {"queued", "running", "failed", "canceled", "dead_letter"}),
        ("-error:x", set(Status)),
        ("worker:x status:queued", set()),
    ],
)
def test_what_a_term_says_of_the_status_narrows_the_search(line, statuses):
    found = search(line)
    assert found.statuses == {Status(status) for status in statuses}
    assert found.nothing is not bool(statuses)


def test_times_and_ids_narrow_the_search():
    found = search("created:<2h finished:<1h")
    assert found.lowest == first_id_at(NOW - 3 * HOUR)
    assert found.finished_since == NOW - HOUR
    assert search("created:<2h,>9h").lowest == UUID(int=0)
    assert search("created:>9h").below == first_id_at(NOW - 8 * HOUR)
    assert search("-created:<2h").lowest == UUID(int=0)
    found = search("id:0192f3a4,0192f3a6")
    assert (found.lowest, found.below) == (UUID("0192f3a4" + "0" * 24), UUID("0192f3a7" + "0" * 24))
    assert search("id:ff id:00").nothing


def test_an_index_is_taken_where_there_is_one():
    assert search("kind:a subject:x,y").by == ("subject", ["x", "y"])
    assert search("correlation:x subject:y").by == ("correlation", ["x"])
    assert search("-subject:x").by is None
    assert search("subject:x*").by is None


def test_a_tenant_stays_within_its_own():
    assert search("tenant:a,b").tenants == ["a", "b"]
    assert search("tenant:a,b", tenant="b").tenants == ["b"]
    assert search("tenant:a", tenant="b").nothing
    assert search("tenant:a*", tenant="b").tenants == ["b"]
    assert search("-tenant:b", tenant="b").tenants == ["b"]


def test_words_are_what_they_are_known_as():
    known = {"video": frozenset({"subject"}), "feed": frozenset({"kind"})}
    assert search("video", known=known).by == ("subject", ["video"])
    both = search("feed", known=known).conditions[0]
    assert [item["field"] for item in both["terms"]] == ["kind", "id"]
    assert search("unheard", known=known).nothing
    assert not search("-unheard", known=known).nothing


@pytest.mark.parametrize(
    ("line", "at", "what", "typed", "position"),
    [
        ("", 0, "name", "", (0, 0)),
        ("st", 2, "name", "st", (0, 2)),
        ("-st", 3, "name", "st", (1, 3)),
        ("status:fa kind:x", 3, "name", "sta", (0, 7)),
        ("status:fa kind:x", 9, "value", "fa", (7, 9)),
        ("status:failed", 9, "value", "fa", (7, 13)),
        ("kind:a,b", 8, "value", "b", (7, 8)),
        ('subject:"my v', 13, "value", "my v", (8, 13)),
        ("payload.vid", 11, "name", "payload.vid", (0, 11)),
        ("payload.video_id:4", 18, "value", "4", (17, 18)),
        ("kind:a ", 7, "name", "", (7, 7)),
        ("kind:a", 99, "value", "a", (5, 6)),
    ],
)
def test_what_is_asked_for_at_a_place(line, at, what, typed, position):
    asked = completion_at(line, at)
    assert (asked.what, asked.typed, (asked.start, asked.end)) == (what, typed, position)


def test_the_other_terms_count_if_they_are_right():
    asked = completion_at("status:failed nonsense:1 kind: queue:slow", 30)
    assert asked.field is FIELDS["kind"]
    assert format_filter(asked.others) == "status:failed queue:slow"


def test_half_a_line_is_never_too_much():
    line = '-status:"fa\\"il",x payload.a.b:>3* kind:, -"'
    for end in range(len(line) + 1):
        for at in range(end + 1):
            asked = completion_at(line[:end], at)
            assert 0 <= asked.start <= asked.end <= end
