"""Schedules in plain words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.core.cron import describe_cron, describe_interval
from posthouse.core.schedule import Schedule
from posthouse.errors import InvalidSchedule

MIDNIGHT = "the minute is 0 and the hour is 0"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0 * * * *", "every hour"),
        ("17 * * * *", "every hour, 17 minutes past"),
        ("0 */2 * * *", "every 2 hours"),
        ("0 */12 * * *", "at 00:00 and 12:00 every day"),
        ("5/20 * * * *", "at 5, 25 and 45 minutes past every hour"),
        ("0 2 * * *", "at 02:00 every day"),
        ("30 2 * * MON-FRI", "at 02:30 on Monday to Friday"),
        ("0 9 * * 7", "at 09:00 on Sundays"),
        ("0 9 * * SAT,SUN", "at 09:00 on Saturday and Sunday"),
        ("0 9,12,17 * * *", "at 09:00, 12:00 and 17:00 every day"),
        ("0,30 9,12 * * *", "at 09:00, 09:30, 12:00 and 12:30 every day"),
        ("0 9-17 * * 1-5", "every hour from 09:00 to 17:00 on Monday to Friday"),
        ("*/10 9-17 * * 1-5", "every 10 minutes from 09:00 to 17:59 on Monday to Friday"),
        ("* 9 * * *", "every minute from 09:00 to 09:59"),
        ("0 9 1 * *", "on the 1st of every month at 09:00"),
        ("0 0 15,L * *", "on the 15th and last day of every month at 00:00"),
        ("0 3 1-7 6-8 *", "on the 1st to 7th of June to August at 03:00"),
        ("59 23 31 12 *", "on the 31st of December at 23:59"),
        ("0 0 * 6 *", "at 00:00 every day in June"),
        ("0 0 * * TUE#2", "on the second Tuesday of the month at 00:00"),
        ("0 0 * * 5L", "on the last Friday of the month at 00:00"),
        ("0 0 13 * FRI", "on the 13th of every month and on Fridays at 00:00"),
        ("@yearly", "on the 1st of January at 00:00"),
        ("*/7 * * * *", "whenever the minute is */7"),
        (
            "0 0 */10 * 1",
            f"whenever {MIDNIGHT} and the day of the month is */10 and the day of the week is 1",
        ),
    ],
)
def test_an_expression_in_words(expression, words):
    assert describe_cron(expression) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "every second"),
        (90, "every 90 seconds"),
        (900, "every 15 minutes"),
        (3600, "every hour"),
        (5400, "every 90 minutes"),
        (86400, "every 24 hours"),
        (172800, "every 2 days"),
    ],
)
def test_an_interval_in_words(seconds, words):
    assert describe_interval(seconds) == words


def test_a_schedule_names_its_zone_unless_it_has_none():
    assert Schedule.parse("0 2 * * *", "Europe/Paris").description == "at 02:00 every day, Europe/Paris"
    assert Schedule.parse("every 15m", "Europe/Paris").description == "every 15 minutes"


def _field(low, high):
    number = st.integers(low, high).map(str)
    span = st.tuples(st.integers(low, high), st.integers(low, high)).map(
        lambda ends: f"{min(ends)}-{max(ends)}"
    )
    step = st.integers(1, high).map(lambda n: f"*/{n}")
    return st.one_of(
        st.just("*"), step, st.lists(st.one_of(number, span), min_size=1, max_size=8).map(",".join)
    )


@given(st.tuples(_field(0, 59), _field(0, 23), _field(1, 31), _field(1, 12), _field(0, 6)).map(" ".join))
def test_every_valid_expression_has_a_description(expression):
    try:
        Schedule.parse(expression)
    except InvalidSchedule:
        return
    words = describe_cron(expression)
    assert words.startswith(("at ", "every ", "on ", "whenever "))
    assert len(words) < 400
