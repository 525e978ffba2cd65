"""What is due, given where a schedule stands and the time that it is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.core.schedule import GRACE, Plan, Schedule, ScheduleState, jitter, plan
from support.brute_force_schedule import between, utc

HOURLY = Schedule.parse("@hourly")
NINE = utc("2026-11-15T09:00")
LONG_AGO = utc("2020-01-01")
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)


def standing(next_at=NINE, last_at=NINE - HOUR, changed_at=LONG_AGO):
    return ScheduleState(next_at, last_at, changed_at)


@pytest.mark.parametrize("missed", ["skip", "once", "catch_up"])
def test_a_run_on_time_starts_under_every_policy(missed):
    assert plan(HOURLY, standing(), NINE + SECOND, missed, 10) == Plan((NINE,), None, NINE + HOUR)


@pytest.mark.parametrize("missed", ["skip", "once", "catch_up"])
def test_nothing_is_due_before_the_next_time(missed):
    assert plan(HOURLY, standing(), NINE - SECOND, missed, 10) == Plan((), None, NINE)


def test_a_late_run_is_skipped_if_it_must_not_be_late():
    late = NINE + GRACE + SECOND
    assert plan(HOURLY, standing(), late, "skip", 10) == Plan((), (NINE, NINE), NINE + HOUR)
    assert plan(HOURLY, standing(), NINE + GRACE, "skip", 10).runs == (NINE,)


def test_of_many_missed_runs_skip_makes_only_one_that_is_on_time():
    now = NINE + 3 * HOUR + SECOND
    found = plan(HOURLY, standing(), now, "skip", 10)
    assert found == Plan((NINE + 3 * HOUR,), (NINE, NINE + 2 * HOUR), NINE + 4 * HOUR)


def test_of_many_missed_runs_once_makes_the_latest():
    now = NINE + 3 * HOUR + 30 * MINUTE
    found = plan(HOURLY, standing(), now, "once", 10)
    assert found == Plan((NINE + 3 * HOUR,), (NINE, NINE + 2 * HOUR), NINE + 4 * HOUR)


def test_catching_up_makes_all_in_order_up_to_the_limit():
    now = NINE + 3 * HOUR + 30 * MINUTE
    everything = tuple(NINE + n * HOUR for n in range(4))
    assert plan(HOURLY, standing(), now, "catch_up", 4) == Plan(everything, None, NINE + 4 * HOUR)
    assert plan(HOURLY, standing(), now, "catch_up", 3) == Plan(everything[1:], (NINE, NINE), NINE + 4 * HOUR)


def test_a_new_schedule_counts_from_its_creation_even_if_checked_later():
    new = standing(next_at=None, last_at=None, changed_at=NINE - MINUTE)
    assert plan(HOURLY, new, NINE - SECOND, "once", 10) == Plan((), None, NINE)
    assert plan(HOURLY, new, NINE + MINUTE, "once", 10) == Plan((NINE,), None, NINE + HOUR)


def test_a_schedule_made_at_its_very_time_starts_with_the_next():
    new = standing(next_at=None, last_at=None, changed_at=NINE)
    assert plan(HOURLY, new, NINE, "once", 10) == Plan((), None, NINE + HOUR)


def test_a_clock_put_back_a_little_makes_nothing_run_early():
    now = NINE - 30 * MINUTE
    assert plan(HOURLY, standing(next_at=NINE + HOUR, last_at=NINE), now, "once", 10) == Plan((), None, NINE)


def test_a_clock_put_back_by_years_does_not_stop_a_schedule_for_years():
    future = utc("2031-01-01T09:00")
    found = plan(HOURLY, standing(next_at=future + HOUR, last_at=future), NINE + MINUTE, "once", 10)
    assert found == Plan((), None, NINE + HOUR)


@pytest.mark.parametrize("missed", ["skip", "once", "catch_up"])
def test_a_keeper_that_slept_for_years_has_bounded_work(missed):
    every_second = Schedule.parse("every 1s")
    found = plan(every_second, standing(next_at=LONG_AGO), NINE, missed, 1000)
    assert len(found.runs) == (1000 if missed == "catch_up" else 1)
    assert found.runs[-1] == NINE
    assert found.missed == (LONG_AGO, found.runs[0] - SECOND)


@settings(deadline=None)
@given(
    moves=st.lists(st.integers(1, 5000), min_size=1, max_size=30),
    zone=st.sampled_from(["America/New_York", "Australia/Lord_Howe", "UTC"]),
    expression=st.sampled_from(["*/20 * * * *", "30 1,2 * * *", "0 */3 * * MON-FRI", "every 45m"]),
)
def test_step_by_step_nothing_is_left_out_and_nothing_comes_twice(moves, zone, expression):
    schedule = Schedule.parse(expression, zone)
    start = now = utc("2026-10-30")
    where = ScheduleState(None, None, start)
    made = []
    for minutes in moves:
        now += timedelta(minutes=minutes)
        found = plan(schedule, where, now, "catch_up", 1000)
        made += found.runs
        where = ScheduleState(found.next_at, made[-1] if made else None, start)
    assert made == between(schedule, start, now)


def test_jitter_is_always_the_same_for_a_run_and_spreads_over_its_length():
    found = [jitter("a-trigger", NINE + n * HOUR, 100.0).total_seconds() for n in range(200)]
    assert found == [jitter("a-trigger", NINE + n * HOUR, 100.0).total_seconds() for n in range(200)]
    assert all(0 <= value < 100 for value in found)
    assert min(found) < 20
    assert max(found) > 80
    assert jitter("another", NINE, 100.0) != jitter("a-trigger", NINE, 100.0)
    assert jitter("a-trigger", NINE, 0.0) == timedelta(0)
