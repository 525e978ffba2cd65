"""posthouse triggers next, and schedules made and checked on the command line."""

from __future__ import annotations

import pytest

SPRING = ("--zone", "America/New_York", "--from", "2026-03-07T12:00", "-n", "2")


@pytest.fixture
def report(db):
    db.execute("""select posthouse.announce('[{"key": "report"}]')""")


def test_the_next_runs_are_shown_in_both_zones_with_what_clocks_do(posthouse):
    done = posthouse("triggers", "next", "--cron", "30 2 * * *", *SPRING)
    assert done.code == 0, done.err
    head, moved, plain = done.out.splitlines()
    assert head.split() == ["America/New_York", "UTC", "daylight", "saving"]
    assert "Sun 2026-03-08 03:00:00 -0400" in moved
    assert "2026-03-08 07:00:00" in moved
    assert "for 02:30, which clocks skip" in moved
    assert "clocks" not in plain


def test_both_passes_are_told_apart(posthouse):
    done = posthouse("triggers", "next", "--cron", "30 1 * * *", "--zone", "America/New_York",
                     "--from", "2026-10-31T12:00", "-n", "2", "--fold", "twice")  # fmt: skip
    first, second = done.out.splitlines()[1:]
    assert "the first of two 01:30" in first
    assert "the second of two 01:30" in second


def test_runs_as_json(posthouse):
    runs = posthouse("triggers", "next", "--cron", "30 2 * * *", *SPRING, "--json").json
    assert runs[0] == {
        "at": "2026-03-08T07:00:00+00:00",
        "local": "2026-03-08T03:00:00-04:00",
        "effect": "moved",
        "instead_of": ["2026-03-08T02:30:00"],
        "note": "for 02:30, which clocks skip",
    }
    assert runs[1]["effect"] == ""


def test_twenty_runs_of_a_trigger_unless_told_otherwise(posthouse, report):
    made = posthouse("triggers", "create", "--cron", "@hourly", "--zone", "Asia/Kathmandu",
                     "--kind", "report", "--jitter", "5m", "--gap", "skip",
                     "--catch-up-limit", "3")  # fmt: skip
    trigger = made.out.strip()
    assert len(posthouse("triggers", "next", trigger, "--json").json) == 20
    posthouse("triggers", "disable", trigger)
    shown = posthouse("triggers", "next", trigger, "-n", "1")
    assert "Asia/Kathmandu" in shown.out
    assert "the trigger is disabled" in shown.err
    assert "up to 5 m later" in shown.err


def test_a_trigger_of_events_has_no_next_run(posthouse, report):
    trigger = posthouse("triggers", "create", "--on", "order.paid", "--kind", "report").out.strip()
    done = posthouse("triggers", "next", trigger)
    assert done.code == 2
    assert "it fires on events (order.paid)" in done.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "missing schedule"),
        (("--cron", "61 * * * *"), "minute: 61 is out of range; expected 0 to 59"),
        (("--cron", "@daily", "--zone", "Europe/Berln"), "did you mean Europe/Berlin?"),
        (("--cron", "@daily", "--from", "tomorrow"), "invalid --from"),
        (("--cron", "@daily", "--gap", "maybe"), "gap must be next or skip"),
    ],
)
def test_wrong_usage_is_explained(posthouse, arguments, complaint):
    done = posthouse("triggers", "next", *arguments)
    assert done.code == 2
    assert complaint in done.err


def test_a_schedule_that_cannot_be_is_refused_when_it_is_made_or_changed(posthouse, report):
    wrong = posthouse("triggers", "create", "--cron", "0 0 30 2 *", "--kind", "report")
    assert wrong.code == 1
    assert "never matches" in wrong.err
    trigger = posthouse("triggers", "create", "--cron", "@daily", "--kind", "report").out.strip()
    assert "unknown time zone" in posthouse("triggers", "edit", trigger, "--zone", "Mars/Base").err
    assert posthouse("triggers", "show", trigger, "--json").json["timezone"] == "UTC"


def test_the_list_says_when_a_schedule_last_made_a_job(posthouse, report, db):
    trigger = posthouse("triggers", "create", "--cron", "every 1s", "--kind", "report").out.strip()
    posthouse("keeper", "--once")
    db.execute("update posthouse.triggers set next_at = posthouse.now() - interval '5 s'")
    posthouse("keeper", "--once")
    assert posthouse("triggers", "show", trigger, "--json").json["last_fired_at"] is not None
