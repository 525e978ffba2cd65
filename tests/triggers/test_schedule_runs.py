"""Schedules on a real database, the clock moved by hand."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from posthouse import testing
from posthouse.errors import InvalidSchedule
from posthouse.keeper.service import SELDOM_SECONDS
from support.brute_force_schedule import utc
from support.waiting import WAIT_SECONDS, eventually
from support.workers import running_worker


async def test_a_schedule_makes_its_job_at_its_time_and_not_before(timeline):
    trigger = timeline.trigger("0 9 * * *", label="morning")
    assert await timeline.look() == {"fired": 0, "skipped": 0, "errors": 0}
    assert timeline.row(trigger)["next_at"] == utc("2026-11-15T09:00")
    assert (await timeline.at("2026-11-15T08:59:58"))["fired"] == 0
    assert (await timeline.at("2026-11-15T09:00:00"))["fired"] == 1
    assert (await timeline.look())["fired"] == 0
    (job,) = timeline.jobs(trigger)
    assert (job["kind"], job["status"], job["source"]) == ("report", "queued", "schedule")
    assert job["scheduled_for"] == utc("2026-11-15T09:00")
    assert job["created_by"] == f"trigger:{trigger}"
    row = timeline.row(trigger)
    assert (row["last_nominal_at"], row["next_at"]) == (utc("2026-11-15T09:00"), utc("2026-11-16T09:00"))
    assert row["version"] == 1


async def test_a_job_gets_the_queue_and_priority_of_its_trigger_or_of_its_definition(timeline):
    timeline.define("other", queue="slow", priority=77)
    own = timeline.trigger(queue="quick", priority=5)
    defined = timeline.trigger(definition_key="other")
    await timeline.look()
    await timeline.at("2026-11-15T09:00")
    assert [(job["queue"], job["priority"]) for job in timeline.jobs(own)] == [("quick", 5)]
    assert [(job["queue"], job["priority"]) for job in timeline.jobs(defined)] == [("slow", 77)]


async def test_a_payload_can_tell_the_time_that_it_is_for(timeline):
    template = {
        "at": "{{schedule.nominal_at}}",
        "day": "report of {{schedule.date}}, {{schedule.label}}",
        "local": "{{schedule.local}}",
        "since": "{{schedule.previous_at}}",
        "trigger": "{{trigger_id}}",
    }
    trigger = timeline.trigger(
        "0 9 * * *", timezone="Asia/Kathmandu", label="daily", payload_template=template
    )
    await timeline.look()
    await timeline.at("2026-11-16T03:15:01")
    await timeline.at("2026-11-17T03:15:01")
    first, second = [job["payload"] for job in timeline.jobs(trigger)]
    assert first == {
        "at": "2026-11-16T03:15:00Z",
        "day": "report of 2026-11-16, daily",
        "local": "2026-11-16T09:00:00+05:45",
        "since": None,
        "trigger": str(trigger),
    }
    assert second["since"] == first["at"]


async def test_a_disabled_schedule_does_not_run_and_does_not_catch_up_when_it_is_enabled(timeline):
    trigger = timeline.trigger(missed="catch_up")
    await timeline.look()
    timeline.change(trigger, enabled=False)
    await timeline.at("2026-11-15T12:30")
    timeline.change(trigger, enabled=True)
    await timeline.at("2026-11-15T13:00:01")
    assert timeline.runs(trigger) == [("11-15 13:00", "fired")]


async def test_a_changed_schedule_goes_on_from_the_change(timeline):
    trigger = timeline.trigger("0 9 * * *")
    await timeline.look()
    timeline.change(trigger, cron_expr="45 8 * * *")
    await timeline.look()
    assert timeline.row(trigger)["next_at"] == utc("2026-11-15T08:45")


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", [("11-15 09:00", "missed")]),
        ("once", [("11-15 09:00", "missed"), ("11-15 12:00", "fired")]),
        ("catch_up", [("11-15 09:00", "missed"), ("11-15 11:00", "fired"), ("11-15 12:00", "fired")]),
    ],
)
async def test_missed_runs_follow_the_policy(timeline, missed, expected):
    trigger = timeline.trigger(missed=missed, catch_up_limit=2)
    await timeline.look()
    await timeline.at("2026-11-15T12:30")
    assert timeline.runs(trigger) == expected
    assert timeline.row(trigger)["next_at"] == utc("2026-11-15T13:00")


async def test_a_long_outage_is_recorded_as_one_missed_range(timeline):
    trigger = timeline.trigger("* * * * *", missed="catch_up", catch_up_limit=3)
    await timeline.look()
    await timeline.at("2026-12-15T08:30:10")
    (missed, *_) = timeline.rows("select * from posthouse.schedule_runs order by nominal_at")
    assert missed["nominal_at"] == utc("2026-11-15T08:31")
    assert missed["missed_until"] == utc("2026-12-15T08:27")
    assert len(timeline.runs(trigger)) == 4


async def test_a_clock_that_is_put_back_runs_nothing_twice(timeline):
    trigger = timeline.trigger()
    await timeline.look()
    for hour in (9, 10, 11):
        await timeline.at(f"2026-11-15T{hour:02}:00:01")
    timeline._scheduler._full_scan_at = 0.0
    assert (await timeline.at("2026-11-15T08:59"))["fired"] == 0
    for hour in (9, 10, 11):
        assert (await timeline.at(f"2026-11-15T{hour:02}:00:01"))["fired"] == 0
    assert (await timeline.at("2026-11-15T12:00:01"))["fired"] == 1
    assert len(timeline.jobs(trigger)) == 4


async def test_a_clock_that_was_years_ahead_for_a_moment_does_not_stop_a_schedule(timeline):
    trigger = timeline.trigger()
    await timeline.look()
    await timeline.at("2031-01-01T00:00:01")
    timeline._scheduler._full_scan_at = 0.0
    await timeline.at("2026-11-15T10:30")
    assert (await timeline.at("2026-11-15T11:00:01"))["fired"] == 1
    assert timeline.row(trigger)["next_at"] == utc("2026-11-15T12:00")


async def test_jitter_moves_the_start_and_not_the_nominal_time(timeline):
    trigger = timeline.trigger(jitter_seconds=600)
    await timeline.look()
    for hour in (9, 10, 11):
        await timeline.at(f"2026-11-15T{hour:02}:00:01")
    assert [run[0] for run in timeline.runs(trigger)] == ["11-15 09:00", "11-15 10:00", "11-15 11:00"]
    late = [
        job["scheduled_for"] - utc(f"2026-11-15T{9 + n:02}:00")
        for n, job in enumerate(timeline.jobs(trigger))
    ]
    assert all(timedelta(0) < by < timedelta(minutes=10) for by in late)
    assert len(set(late)) == 3


async def test_a_run_is_skipped_while_the_one_before_is_active(timeline):
    trigger = timeline.trigger(overlap="skip")
    await timeline.look()
    await timeline.at("2026-11-15T09:00:01")
    assert await timeline.at("2026-11-15T10:00:01") == {"fired": 0, "skipped": 1, "errors": 0}
    (job,) = timeline.jobs(trigger)
    timeline.db.execute("select posthouse.cancel(%s)", (job["id"],))
    assert (await timeline.at("2026-11-15T11:00:01"))["fired"] == 1
    assert timeline.runs(trigger) == [
        ("11-15 09:00", "fired"), ("11-15 10:00", "overlap"), ("11-15 11:00", "fired"),
    ]  # fmt: skip
    (skipped,) = timeline.rows("select * from posthouse.schedule_runs where outcome = 'overlap'")
    assert skipped["reason"] == f"job {job['id']} was still active"


async def test_catching_up_without_overlap_makes_one_job_at_a_time(timeline):
    trigger = timeline.trigger(overlap="skip", missed="catch_up")
    await timeline.look()
    assert (await timeline.at("2026-11-15T11:30"))["fired"] == 1
    assert [outcome for _, outcome in timeline.runs(trigger)] == ["fired", "overlap", "overlap"]


async def test_a_reopened_job_counts_as_active(timeline):
    trigger = timeline.trigger(overlap="skip")
    await timeline.look()
    await timeline.at("2026-11-15T09:00:01")
    (job,) = timeline.jobs(trigger)
    timeline.db.execute("select posthouse.cancel(%s)", (job["id"],))
    timeline.db.execute("select posthouse.reopen(%s)", (job["id"],))
    assert (await timeline.at("2026-11-15T10:00:01"))["skipped"] == 1


async def test_queued_runs_stand_in_one_line(timeline):
    trigger = timeline.trigger(overlap="queue", missed="catch_up")
    await timeline.look()
    await timeline.at("2026-11-15T11:30")
    job_tables = [job["job_table"] for job in timeline.jobs(trigger)]
    assert job_tables == ["ready", "waiting", "waiting"]


async def test_a_template_error_is_recorded_on_the_trigger_and_does_not_block_others(timeline):
    wrong = timeline.trigger(payload_template={"a": "{{schedule.nonsense}}"})
    right = timeline.trigger()
    await timeline.look()
    assert await timeline.at("2026-11-15T09:00:01") == {"fired": 1, "skipped": 0, "errors": 1}
    assert len(timeline.jobs(right)) == 1
    assert timeline.runs(wrong) == [("11-15 09:00", "error")]
    assert "schedule.nonsense is missing" in timeline.row(wrong)["last_error"]
    assert timeline.row(wrong)["last_error_at"] is not None
    assert timeline.db.execute("select type, details ->> 'trigger_id' from posthouse.alerts").fetchall() == [
        ("trigger_error", str(wrong))
    ]
    assert (await timeline.look())["errors"] == 0
    timeline.change(wrong, payload_template={})
    await timeline.at("2026-11-15T10:00:01")
    assert timeline.runs(wrong) == [("11-15 09:00", "error"), ("11-15 10:00", "fired")]
    assert timeline.row(wrong)["last_error"] is None


@pytest.mark.parametrize(
    ("definition", "complaint"),
    [
        ({"schema": {"type": "object", "required": ["user"]}}, '"user" is a required property'),
        ({"active": False}, "its definition is inactive"),
    ],
)
async def test_a_payload_is_held_to_its_definition(timeline, definition, complaint):
    timeline.define("strict", **definition)
    trigger = timeline.trigger(definition_key="strict")
    await timeline.look()
    assert (await timeline.at("2026-11-15T09:00:01"))["errors"] == 1
    assert complaint in timeline.row(trigger)["last_error"]
    assert timeline.jobs(trigger) == []


async def test_a_database_error_is_recorded_on_the_trigger(timeline):
    trigger = timeline.trigger()
    timeline.db.execute("update posthouse.triggers set queue = repeat('q', 513), priority = null")
    timeline.db.execute("alter table posthouse.ready add constraint short check (length(queue) < 100)")
    await timeline.look()
    assert (await timeline.at("2026-11-15T09:00:01"))["errors"] == 1
    assert "violates check constraint" in timeline.row(trigger)["last_error"]
    assert timeline.runs(trigger) == [("11-15 09:00", "error")]


async def test_an_invalid_schedule_is_reported_hourly_and_does_not_block_others(timeline):
    unreadable, right = timeline.trigger(), timeline.trigger()
    timeline.db.execute("update posthouse.triggers set timezone = 'Moon/Base' where id = %s", (unreadable,))
    assert (await timeline.look())["errors"] == 1
    assert "unknown time zone 'Moon/Base'" in timeline.row(unreadable)["last_error"]
    assert await timeline.at("2026-11-15T09:00:01") == {"fired": 1, "skipped": 0, "errors": 0}
    assert len(timeline.jobs(right)) == 1
    assert (await timeline.at("2026-11-15T09:31"))["errors"] == 1


async def test_a_locked_trigger_does_not_stop_the_others(timeline):
    held, free = timeline.trigger(), timeline.trigger()
    await timeline.look()
    await timeline.move_to("2026-11-15T09:00:01")
    with timeline.db.transaction():
        timeline.db.execute("select from posthouse.triggers where id = %s for update", (held,))
        async with asyncio.timeout(WAIT_SECONDS):
            assert (await timeline.look())["fired"] == 1
    assert (await timeline.look())["fired"] == 1
    assert [len(timeline.jobs(trigger)) for trigger in (held, free)] == [1, 1]


async def test_a_trigger_that_was_changed_since_it_was_read_is_left_alone(timeline):
    trigger = timeline.trigger()
    await timeline.look()
    before = timeline.row(trigger)
    timeline.change(trigger, label="another")
    fired = timeline.db.execute(
        "select fired, skipped, errors from posthouse.fire_schedule(%s, %s, %s, %s, %s)",
        (trigger, before["version"], before["next_at"],
         '[{"nominal_at": "2026-11-15T09:00Z", "request": {"kind": "report"}}]', utc("2026-11-15T10:00")),
    ).fetchone()  # fmt: skip
    assert fired == (0, 0, 0)
    assert timeline.jobs(trigger) == []


async def test_invariant_16_a_recorded_run_creates_no_second_job(timeline):
    trigger = timeline.trigger()
    await timeline.look()
    runs = '[{"nominal_at": "2026-11-15T09:00Z", "request": {"kind": "report", "source": "schedule"}}]'
    for _ in range(3):
        row = timeline.row(trigger)
        timeline.db.execute(
            "select posthouse.fire_schedule(%s, %s, %s, %s, %s)",
            (trigger, row["version"], row["next_at"], runs, utc("2026-11-15T10:00")),
        )
    assert timeline.runs(trigger) == [("11-15 09:00", "fired")]
    assert len(timeline.rows("select from posthouse.jobs")) == 1


async def test_old_runs_are_deleted_and_active_ones_are_kept(timeline):
    ended, active = timeline.trigger(overlap="skip"), timeline.trigger(overlap="skip")
    await timeline.look()
    await timeline.at("2026-11-15T09:00:01")
    (job,) = timeline.jobs(ended)
    timeline.db.execute("select posthouse.cancel(%s)", (job["id"],))
    timeline.db.execute("select posthouse.delete_stale_rows('2026-11-16')")
    assert [len(timeline.runs(trigger)) for trigger in (ended, active)] == [0, 1]


async def test_the_pause_ends_when_the_next_run_is_due(timeline):
    scheduler = timeline.scheduler()
    await scheduler.run_once()
    assert scheduler.pause() == SELDOM_SECONDS
    timeline.trigger("every 1h")
    await timeline.move_to("2026-11-15T08:59:59.700")
    await scheduler.run_once()
    assert 0 < scheduler.pause() <= 0.3


async def test_a_worker_with_a_keeper_runs_what_its_code_schedules(app):
    seen = []

    @app.job()
    async def tick(at: str) -> None:
        seen.append(at)

    tick.on_schedule("every 1s", {"at": "{{schedule.nominal_at}}"})
    async with running_worker(app):
        await eventually(lambda: len(seen) >= 3)
    assert seen == sorted(set(seen))


def test_code_that_schedules_nonsense_does_not_start(app):
    @app.job()
    async def tick() -> None: ...

    with pytest.raises(InvalidSchedule, match="hour: 25 is out of range; expected 0 to 23"):
        tick.on_schedule("0 25 * * *")


async def test_drain_makes_and_runs_what_is_due(app, timeline):
    seen = []

    @app.job()
    async def report(day: str) -> None:
        seen.append(day)

    timeline.trigger("0 9 * * *", payload_template={"day": "{{schedule.date}}"})
    await timeline.look()
    await timeline.move_to("2026-11-15T09:00:01")
    await testing.drain(app)
    assert seen == ["2026-11-15"]
