from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.core.cron import ALIASES
from posthouse.core.schedule import EPOCH, Schedule
from posthouse.errors import InvalidSchedule
from support.brute_force_schedule import utc

START = utc("2026-11-15T10:07:30")


def runs(expression, count=3, start=START, zone="UTC"):
    return [f"{at:%m-%d %H:%M}" for at in Schedule.parse(expression, zone).upcoming(start, count)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/15 * * * *", ["11-15 10:15", "11-15 10:30", "11-15 10:45"]),
        ("5/20 10 * * *", ["11-15 10:25", "11-15 10:45", "11-16 10:05"]),
        ("0 8-18/5 * * *", ["11-15 13:00", "11-15 18:00", "11-16 08:00"]),
        ("0 9 * * mon-fri", ["11-16 09:00", "11-17 09:00", "11-18 09:00"]),
        ("0 9 * * FRI-SUN", ["11-20 09:00", "11-21 09:00", "11-22 09:00"]),
        ("0 9 * * 7", ["11-22 09:00", "11-29 09:00", "12-06 09:00"]),
        ("0 9 * * */3", ["11-18 09:00", "11-21 09:00", "11-22 09:00"]),
        ("0 0 1 JAN,jul *", ["01-01 00:00", "07-01 00:00", "01-01 00:00"]),
        ("0 0 13 * FRI", ["11-20 00:00", "11-27 00:00", "12-04 00:00"]),
        ("0 0 31 * *", ["12-31 00:00", "01-31 00:00", "03-31 00:00"]),
        ("0 0 L * *", ["11-30 00:00", "12-31 00:00", "01-31 00:00"]),
        ("0 0 15,L * *", ["11-30 00:00", "12-15 00:00", "12-31 00:00"]),
        ("0 0 * * TUE#2", ["12-08 00:00", "01-12 00:00", "02-09 00:00"]),
        ("0 0 * * 5L", ["11-27 00:00", "12-25 00:00", "01-29 00:00"]),
        ("0 0 */10 * MON", ["12-21 00:00", "01-11 00:00", "02-01 00:00"]),
        ("@hourly", ["11-15 11:00", "11-15 12:00", "11-15 13:00"]),
        ("@daily", ["11-16 00:00", "11-17 00:00", "11-18 00:00"]),
        ("@Weekly", ["11-22 00:00", "11-29 00:00", "12-06 00:00"]),
        ("@yearly", ["01-01 00:00", "01-01 00:00", "01-01 00:00"]),
        ("every 15m", ["11-15 10:15", "11-15 10:30", "11-15 10:45"]),
        ("@every 1h30m", ["11-15 10:30", "11-15 12:00", "11-15 13:30"]),
    ],
)
def test_an_expression_means_these_times(expression, expected):
    assert runs(expression) == expected


def test_a_day_field_with_a_star_narrows_and_two_named_day_fields_add_up():
    both = Schedule.parse("0 0 1,15 * MON").upcoming(START, 50)
    assert all(at.day in {1, 15} or at.isoweekday() == 1 for at in both)
    assert any(at.isoweekday() != 1 for at in both)
    assert any(at.day not in {1, 15} for at in both)


@pytest.mark.parametrize("alias", ALIASES)
def test_a_name_is_the_expression_that_it_stands_for(alias):
    assert Schedule.parse(alias).upcoming(START, 5) == Schedule.parse(ALIASES[alias]).upcoming(START, 5)


def test_a_time_is_later_than_the_moment_that_is_asked_about():
    schedule = Schedule.parse("*/5 * * * *")
    on_time = utc("2026-11-15T10:05")
    assert schedule.after(on_time) == on_time + timedelta(minutes=5)
    assert schedule.after(on_time - timedelta(microseconds=1)) == on_time


def test_a_moment_may_be_given_in_any_zone():
    berlin = datetime.fromisoformat("2026-11-15T10:00:00+01:00")
    assert Schedule.parse("@hourly").after(berlin) == utc("2026-11-15T10:00")


def test_the_rarest_day_is_found():
    after = Schedule.parse("0 0 29 2 */7").after(utc("2080-03-01"))
    assert after == utc("2104-02-29") or (after.month, after.day, after.isoweekday()) == (2, 29, 7)


@given(length=st.integers(1, 366 * 86400), moment=st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)))  # noqa: DTZ001
def test_intervals_are_counted_from_the_epoch(length, moment):
    moment = moment.replace(tzinfo=UTC)
    at = Schedule.parse(f"every {length}s", "America/New_York").after(moment)
    assert moment < at <= moment + timedelta(seconds=length)
    assert (at - EPOCH) % timedelta(seconds=length) == timedelta(0)


def test_the_calendar_ends_without_an_error():
    for expression in ("@daily", "every 1d", "* * * * *"):
        last_day = utc("9999-12-30T00:00")
        assert len(Schedule.parse(expression, "Asia/Tokyo").upcoming(last_day, 10_000)) < 10_000
        assert Schedule.parse(expression).after(utc("9999-12-31T23:59:59")) is None


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("61 * * * *", "minute: 61 is out of range; expected 0 to 59"),
        ("* 24 * * *", "hour: 24 is out of range; expected 0 to 23"),
        ("0 0 0 * *", "day of month: 0 is out of range; expected 1 to 31"),
        ("0 0 * 13 *", "month: 13 is out of range; expected 1 to 12"),
        ("0 0 * * 8", "day of week: 8 is out of range; expected 0 to 7"),
        ("0 0 * FEV *", "month: invalid value 'FEV'; expected 1 to 12 or JAN|FEB"),
        ("0 0 ? * *", "day of month: invalid value '?'"),
        ("0 22-2 * * *", "hour: 22-2 is a descending range; to wrap around write 22-23,0-2"),
        ("*/0 * * * *", "minute: a step must be a number from 1 to 59, not '0'"),
        ("*/x * * * *", "minute: a step must be a number from 1 to 59, not 'X'"),
        ("1,,2 * * * *", "minute: invalid value (empty)"),
        ("0 0 * * MON#6", "day of week: MON#6 has week 6"),
        ("9" * 5000 + " * * * *", "at most 512 characters"),
        ("9" * 400 + " * * * *", "is out of range; expected 0 to 59"),
        ("0 0 30 2 *", "never matches"),
        ("0 0 31 4,6,9,11 *", "never matches"),
        ("* * * *", "cron has five fields (minute, hour, day of month, month, day of week), not 4"),
        ("0 * * * * *", "no seconds; for intervals below a minute write: every 30s"),
        ("", "cron has five fields"),
        ("@reboot", "unknown name; the names are @yearly"),
        ("every", "invalid duration ''"),
        ("every day", "invalid duration 'day'"),
        ("every 0s", "from 1s to 366d"),
        ("every 1500ms", "whole seconds"),
        ("every 500d", "from 1s to 366d"),
    ],
)
def test_a_wrong_expression_is_refused_and_the_reason_names_the_place(expression, complaint):
    with pytest.raises(InvalidSchedule) as caught:
        Schedule.parse(expression)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["", "Mars/Olympus", "America", "../../etc/passwd", "/etc/passwd", "localtime", "right/UTC", "x\0y"],
)
def test_what_is_no_zone_is_refused(name):
    with pytest.raises(InvalidSchedule, match="unknown time zone"):
        Schedule.parse("@daily", name)


def test_a_mistyped_zone_is_answered_with_the_right_one():
    with pytest.raises(InvalidSchedule, match="did you mean Europe/Berlin"):
        Schedule.parse("@daily", "Europe/Berln")


@pytest.mark.parametrize("policies", [{"gap": "later"}, {"fold": "thrice"}])
def test_an_unknown_policy_is_refused(policies):
    with pytest.raises(InvalidSchedule, match="gap must be next or skip"):
        Schedule.parse("@daily", **policies)


@given(st.text(max_size=40))
def test_any_text_is_a_schedule_or_an_invalid_one(text):
    try:
        schedule = Schedule.parse(text)
    except InvalidSchedule:
        return
    assert schedule.after(START) > START
