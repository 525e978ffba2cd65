"""Invariant 16, its pure half: the table of changes of clocks is exact."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.core.schedule import Schedule
from posthouse.errors import InvalidSchedule
from support.brute_force_schedule import between, times_by_minute, utc

# Zone, expression, from; then the next runs in local time with their offsets, for each policy.
# fmt: off
TABLE = [
    # Clocks are put forward over the time: by an hour ...
    ("America/New_York", "30 2 * * *", "2026-03-07T12:00", {
        "next": ["03-08 03:00-0400", "03-09 02:30-0400"],
        "skip": ["03-09 02:30-0400", "03-10 02:30-0400"]}),
    ("Europe/Berlin", "0 2 * * *", "2026-03-28T12:00", {
        "next": ["03-29 03:00+0200", "03-30 02:00+0200"],
        "skip": ["03-30 02:00+0200"]}),
    # ... by half an hour ...
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00", {
        "next": ["10-04 02:30+1100", "10-05 02:15+1100"],
        "skip": ["10-05 02:15+1100"]}),
    ("Australia/Lord_Howe", "45 2 * * *", "2026-10-03T00:00", {
        "next": ["10-04 02:45+1100", "10-05 02:45+1100"]}),
    # ... in a zone of odd quarters ...
    ("Pacific/Chatham", "45 2,3 * * *", "2026-09-26T12:00", {
        "next": ["09-27 03:45+1345", "09-28 02:45+1345"],
        "skip": ["09-27 03:45+1345", "09-28 02:45+1345"]}),
    ("Pacific/Chatham", "0 3 * * *", "2026-09-26T12:00", {
        "next": ["09-27 03:45+1345", "09-28 03:00+1345"],
        "skip": ["09-28 03:00+1345"]}),
    # ... over midnight ...
    ("America/Havana", "0 0 * * *", "2026-03-07T12:00", {
        "next": ["03-08 01:00-0400", "03-09 00:00-0400"],
        "skip": ["03-09 00:00-0400"]}),
    ("Asia/Beirut", "@daily", "2026-03-28T12:00", {
        "next": ["03-29 01:00+0300", "03-30 00:00+0300"],
        "skip": ["03-30 00:00+0300"]}),
    ("America/Sao_Paulo", "30 0 * * *", "2018-11-03T12:00", {
        "next": ["11-04 01:00-0200", "11-05 00:30-0200"],
        "skip": ["11-05 00:30-0200"]}),
    ("Africa/Cairo", "5 0 * * FRI", "2026-04-23T12:00", {
        "next": ["04-24 01:00+0300", "05-01 00:05+0300"],
        "skip": ["05-01 00:05+0300"]}),
    # ... from one minute past midnight, as St. John's did ...
    ("America/St_Johns", "30 0 * * *", "2009-03-07T12:00", {
        "next": ["03-08 01:01-0230", "03-09 00:30-0230"],
        "skip": ["03-09 00:30-0230"]}),
    # ... by a whole day, when Samoa crossed the date line.
    ("Pacific/Apia", "0 9 * * *", "2011-12-29T20:00", {
        "next": ["12-31 00:00+1400", "12-31 09:00+1400"],
        "skip": ["12-31 09:00+1400", "01-01 09:00+1400"]}),
    ("Pacific/Apia", "0 9 30 12 *", "2011-12-29T20:00", {
        "next": ["12-31 00:00+1400", "12-30 09:00+1400"]}),
    # All that one gap swallowed is one run; a run that is due then anyway is the same one.
    ("America/New_York", "0,15,30,45 2 * * *", "2026-03-08T06:00", {
        "next": ["03-08 03:00-0400", "03-09 02:00-0400"]}),
    ("America/New_York", "*/15 2 * * *", "2026-03-08T06:00", {
        "next": ["03-08 03:00-0400", "03-09 02:00-0400"],
        "skip": ["03-09 02:00-0400"]}),
    ("America/New_York", "0 2,3 * * *", "2026-03-08T06:00", {
        "next": ["03-08 03:00-0400", "03-09 02:00-0400"]}),
    # Every hour: nothing to make up for. Every six hours is four times of day.
    ("America/Havana", "0 */6 * * *", "2026-03-07T20:00", {
        "next": ["03-07 18:00-0500", "03-08 01:00-0400", "03-08 06:00-0400"],
        "skip": ["03-07 18:00-0500", "03-08 06:00-0400"]}),
    ("America/New_York", "30 0-23 * * *", "2026-03-08T06:00", {
        "next": ["03-08 01:30-0500", "03-08 03:30-0400"]}),
    ("America/New_York", "30 * * * *", "2026-03-08T06:00", {
        "next": ["03-08 01:30-0500", "03-08 03:30-0400"],
        "skip": ["03-08 01:30-0500", "03-08 03:30-0400"]}),
    ("Australia/Lord_Howe", "15 * * * *", "2026-10-03T15:00", {
        "next": ["10-04 03:15+1100"]}),
    # Clocks are put back over the time: by an hour ...
    ("America/New_York", "30 1 * * *", "2026-10-31T12:00", {
        "once": ["11-01 01:30-0400", "11-02 01:30-0500"],
        "twice": ["11-01 01:30-0400", "11-01 01:30-0500", "11-02 01:30-0500"]}),
    # ... by half an hour ...
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T00:00", {
        "once": ["04-05 01:45+1100", "04-06 01:45+1030"],
        "twice": ["04-05 01:45+1100", "04-05 01:45+1030", "04-06 01:45+1030"]}),
    ("Australia/Lord_Howe", "15 1 * * *", "2026-04-04T00:00", {
        "twice": ["04-05 01:15+1100", "04-06 01:15+1030"]}),
    ("Pacific/Chatham", "0 3 * * *", "2026-04-04T00:00", {
        "once": ["04-05 03:00+1345", "04-06 03:00+1245"],
        "twice": ["04-05 03:00+1345", "04-05 03:00+1245", "04-06 03:00+1245"]}),
    # ... to before midnight ...
    ("America/Havana", "15 0 * * *", "2026-10-31T12:00", {
        "once": ["11-01 00:15-0400", "11-02 00:15-0500"],
        "twice": ["11-01 00:15-0400", "11-01 00:15-0500", "11-02 00:15-0500"]}),
    ("Asia/Beirut", "30 23 * * *", "2026-10-24T12:00", {
        "once": ["10-24 23:30+0300", "10-25 23:30+0200"],
        "twice": ["10-24 23:30+0300", "10-24 23:30+0200", "10-25 23:30+0200"]}),
    ("America/Sao_Paulo", "0 0 * * *", "2018-02-17T12:00", {
        "twice": ["02-18 00:00-0300", "02-19 00:00-0300"]}),
    ("Africa/Cairo", "59 23 * * *", "2026-10-29T12:00", {
        "once": ["10-29 23:59+0300", "10-30 23:59+0200"],
        "twice": ["10-29 23:59+0300", "10-29 23:59+0200", "10-30 23:59+0200"]}),
    # ... and from after midnight to before it: the first pass of Sunday lies before the second of Saturday.
    ("America/St_Johns", "0 0 * * *", "2009-10-31T12:00", {
        "once": ["11-01 00:00-0230", "11-02 00:00-0330"],
        "twice": ["11-01 00:00-0230", "11-01 00:00-0330", "11-02 00:00-0330"]}),
    ("America/St_Johns", "0,30 0,23 * * *", "2009-11-01T02:15", {
        "twice": ["11-01 00:00-0230", "10-31 23:30-0330", "11-01 00:00-0330", "11-01 00:30-0330"]}),
    ("America/Havana", "0 */6 * * *", "2026-10-31T20:00", {
        "once": ["10-31 18:00-0400", "11-01 00:00-0400", "11-01 06:00-0500"]}),
    # What runs every hour or every few minutes does so in both passes under every policy.
    ("America/New_York", "*/30 * * * *", "2026-11-01T05:15", {
        "once": ["11-01 01:30-0400", "11-01 01:00-0500", "11-01 01:30-0500", "11-01 02:00-0500"],
        "twice": ["11-01 01:30-0400", "11-01 01:00-0500", "11-01 01:30-0500", "11-01 02:00-0500"]}),
    ("America/New_York", "15 * * * *", "2026-11-01T05:00", {
        "once": ["11-01 01:15-0400", "11-01 01:15-0500", "11-01 02:15-0500"]}),
    ("America/New_York", "*/20 0-4 * * *", "2026-11-01T05:30", {
        "once": ["11-01 01:40-0400", "11-01 01:00-0500", "11-01 01:20-0500", "11-01 01:40-0500",
                 "11-01 02:00-0500"]}),
    # Hours that are named are times of day, even many of them.
    ("America/New_York", "0 0-4 * * *", "2026-11-01T04:30", {
        "once": ["11-01 01:00-0400", "11-01 02:00-0500", "11-01 03:00-0500"],
        "twice": ["11-01 01:00-0400", "11-01 01:00-0500", "11-01 02:00-0500"]}),
    # Intervals go on as if nothing had happened.
    ("America/New_York", "every 90m", "2026-03-08T05:00", {
        "next": ["03-08 01:00-0500", "03-08 03:30-0400", "03-08 05:00-0400"]}),
]
# fmt: on

CASES = [
    pytest.param(zone, expression, start, policy, runs, id=f"{zone} {expression} {policy}")
    for zone, expression, start, policies in TABLE
    for policy, runs in policies.items()
]


@pytest.mark.parametrize(("zone", "expression", "start", "policy", "runs"), CASES)
def test_changes_of_clocks_are_met_exactly(zone, expression, start, policy, runs):
    policies = {"gap": policy} if policy in {"next", "skip"} else {"fold": policy}
    schedule = Schedule.parse(expression, zone, **policies)
    found = schedule.upcoming(utc(start), len(runs))
    assert [f"{at.astimezone(ZoneInfo(zone)):%m-%d %H:%M%z}" for at in found] == runs
    assert all(at.tzinfo is UTC for at in found)


ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Chatham", "America/Havana",
         "Asia/Beirut", "America/Sao_Paulo", "Africa/Cairo", "Pacific/Apia", "America/St_Johns",
         "Africa/Casablanca", "Asia/Kathmandu", "Antarctica/Troll", "UTC"]  # fmt: skip
ABOUT = ["2009-03-07", "2009-10-31", "2011-12-29", "2018-02-17", "2018-11-03", "2026-02-14", "2026-03-07",
         "2026-03-28", "2026-04-04", "2026-04-23", "2026-09-26", "2026-10-03", "2026-10-24", "2026-10-29",
         "2026-10-31"]  # fmt: skip


def sets(low, high):
    return st.none() | st.sets(st.integers(low, high), min_size=1, max_size=4)


FIELDS = st.tuples(sets(0, 59), sets(0, 23), sets(1, 31), sets(1, 12), sets(0, 6))


def written(fields):
    return " ".join("*" if field is None else ",".join(map(str, sorted(field))) for field in fields)


def parsed(fields, zone, **policies):
    """The schedule of these fields; none if there is never such a day."""
    try:
        return Schedule.parse(written(fields), zone, **policies)
    except InvalidSchedule:
        return None


@settings(deadline=None)
@given(
    fields=FIELDS,
    zone=st.sampled_from(ZONES),
    about=st.sampled_from(ABOUT),
    shift=st.integers(-600, 2000),
    policy=st.tuples(st.sampled_from(["next", "skip"]), st.sampled_from(["once", "twice"])),
)
def test_a_walk_over_every_minute_finds_the_same_times(fields, zone, about, shift, policy):
    gap, fold = policy
    start = utc(about) + timedelta(minutes=shift)
    end = start + timedelta(hours=40)
    schedule = parsed(fields, zone, gap=gap, fold=fold)
    if schedule is None:
        assert times_by_minute(fields, ZoneInfo(zone), start, end) == []
        return
    expected = times_by_minute(fields, ZoneInfo(zone), start, end, gap=gap, fold=fold)
    found = schedule.upcoming(start, len(expected) + 1)
    assert found[: len(expected)] == expected
    assert all(at > end for at in found[len(expected) :])


@settings(deadline=None)
@given(fields=FIELDS, zone=st.sampled_from(ZONES), about=st.sampled_from(ABOUT), count=st.integers(1, 40))
def test_the_latest_times_are_the_end_of_all_of_them(fields, zone, about, count):
    since, until = utc(about), utc(about) + timedelta(days=3)
    schedule = parsed(fields, zone)
    if schedule is not None:
        everything = between(schedule, since - timedelta(seconds=1), until)
        assert schedule.latest(since, until, count) == everything[-count:]


@settings(deadline=None)
@given(fields=FIELDS, zone=st.sampled_from(ZONES), about=st.sampled_from(ABOUT))
def test_asking_time_by_time_gives_the_same_as_asking_for_many(fields, zone, about):
    schedule = parsed(fields, zone)
    if schedule is not None:
        moment, one_by_one = utc(about), []
        for _ in range(30):
            moment = schedule.after(moment)
            one_by_one.append(moment)
        assert one_by_one == schedule.upcoming(utc(about), 30)


def test_the_effect_of_a_clock_change_on_a_run_is_described():
    spring = Schedule.parse("0,30 2 * * *", "America/New_York").occurrences(utc("2026-03-08T06:00"), 2)
    assert [run.effect for run in spring] == ["moved", ""]
    assert [f"{wall:%H:%M}" for wall in spring[0].instead_of] == ["02:00", "02:30"]
    autumn = Schedule.parse("30 1 * * *", "America/New_York", fold="twice")
    effects = [run.effect for run in autumn.occurrences(utc("2026-10-31T12:00"), 3)]
    assert effects == ["first", "second", ""]


def test_a_skipped_day_is_described_at_its_end():
    (run,) = Schedule.parse("0 9 * * *", "Pacific/Apia").occurrences(utc("2011-12-30T00:00"), 1)
    assert run.effect == "moved"
    assert [f"{wall:%m-%d %H:%M}" for wall in run.instead_of] == ["12-30 09:00"]


def test_zones_are_known_on_a_machine_without_zone_data():
    program = (
        "from posthouse.core.schedule import Schedule\n"
        "from datetime import UTC, datetime\n"
        "print(Schedule.parse('@daily', 'Europe/Berlin').after(datetime(2026, 7, 1, tzinfo=UTC)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONTZPATH": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "2026-07-01 22:00:00+00:00", done.stderr
