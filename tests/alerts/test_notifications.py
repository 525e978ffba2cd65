"""Which alerts are told: the cool-down, storms, several keepers at once, facts that are committed late."""

import asyncio
import threading
from contextlib import closing

import psycopg
import pytest

from posthouse import testing
from posthouse.cli.log_format import HideKinds
from posthouse.keeper.alerter import MAX_POSTED, Alerter
from posthouse.storage.connections import ReconnectingConnection
from support.engine import Engine
from support.waiting import WAIT_SECONDS

STORM = """
insert into posthouse.history (
  id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts, tenant_id, kind, queue,
  generation, crashes, snoozes, source, attempt_started_at, finished_at, status, outcome, last_error, error)
select gen_random_uuid(), now(), now(), now(), 100, 3, 3, 'tenant ' || n %% %(tenants)s,
  'kind ' || n %% %(kinds)s, 'default', 1, 0, 0, 'manual', now(), posthouse.now(), 'dead_letter', 'failed',
  'ValueError: broken', '{"type": "ValueError", "message": "broken"}'
from generate_series(1, %(jobs)s) as n
"""


def bury(jobs, kind="task", tenant="default"):
    """A job that went to the dead letter."""
    job = jobs.start(kind, max_attempts=1, tenant_id=tenant)
    jobs.settle(job, "exhaust", error={"type": "ValueError", "message": "broken"})
    return job


def storm(db, number, tenants=1, kinds=1):
    db.execute(STORM, {"jobs": number, "tenants": tenants, "kinds": kinds})


def counts(db, alert_type="job_max_retries_exceeded"):
    """(raised, suppressed, sent, failed)"""
    return db.execute(
        "select raised, suppressed, sent, failed from posthouse.alert_types where type = %s", (alert_type,)
    ).fetchone()


async def catch_up(db, alerter):
    """Looks until all that happened more than ten seconds ago is done with. Other tests' transactions, on the
    same server, hold it back while they last.
    """
    recent = "select scanned_until > posthouse.now() - interval '10 seconds' from posthouse.alert_cursor"
    async with asyncio.timeout(WAIT_SECONDS):
        while db.execute(recent).fetchone() != (True,):
            await alerter.run_once()


async def test_an_alert_about_a_hidden_kind_is_not_logged(app, jobs, alerter, alerts, caplog):
    caplog.handler.addFilter(hide := HideKinds(["demo.toll"]))
    bury(jobs, "demo.toll")
    bury(jobs, "invoice")
    assert (await alerter().run_once())["posted"] == 2
    caplog.handler.removeFilter(hide)
    assert "invoice" in caplog.text
    assert "demo.toll" not in caplog.text


async def test_within_the_cool_down_others_are_only_counted(app, jobs, db, alerter, alerts):
    bury(jobs)
    assert await alerter().run_once() == {"raised": 1, "posted": 1}
    for _ in range(3):
        bury(jobs)
    assert await alerter().run_once() == {"raised": 3, "posted": 0}
    assert [alert["state"] for alert in alerts("job_max_retries_exceeded")] == [
        "posted",
        "suppressed",
        "suppressed",
        "suppressed",
    ]
    assert counts(db) == (4, 0, 0, 0)


async def test_after_it_one_message_says_how_many_there_were(app, jobs, db, alerter, alerts):
    async with testing.clock(app) as clock:
        bury(jobs)
        await alerter().run_once()
        for _ in range(3):
            bury(jobs)
        await alerter().run_once()
        await clock.advance("280s")
        assert (await alerter().run_once())["posted"] == 0
        await clock.advance("21s")
        assert (await alerter().run_once())["posted"] == 1
    told = [alert for alert in alerts("job_max_retries_exceeded") if alert["state"] == "posted"]
    assert [alert["suppressed_count"] for alert in told] == [0, 2]
    assert counts(db) == (4, 2, 0, 0)


async def test_the_first_alert_after_the_cool_down_counts_the_suppressed_ones(app, jobs, alerter, alerts):
    async with testing.clock(app) as clock:
        bury(jobs)
        await alerter().run_once()
        bury(jobs)
        await alerter().run_once()
        await clock.advance("301s")
        newest = bury(jobs)
        await alerter().run_once()
    told = [alert for alert in alerts("job_max_retries_exceeded") if alert["state"] == "posted"]
    assert (told[1]["suppressed_count"], told[1]["details"]["job_id"]) == (1, str(newest.id))


async def test_types_subjects_and_tenants_cool_down_apart(jobs, db, alerter):
    bury(jobs)
    assert (await alerter().run_once())["posted"] == 1
    bury(jobs, kind="other")
    bury(jobs, tenant="acme")
    db.execute("select posthouse.raise_alert('trigger_error', 'default', 'task', 'no such path')")
    assert (await alerter().run_once())["posted"] == 3


async def test_without_a_cool_down_every_check_raises_an_alert(jobs, alerter):
    for _ in range(3):
        bury(jobs)
        assert (await alerter(alert_cooldown_seconds=0.0).run_once())["posted"] == 1


async def test_a_storm_of_one_kind_is_one_message(db, alerter, alerts):
    storm(db, 6_000)
    alerting = alerter()
    raised = posted = 0
    while (found := await alerting.run_once())["raised"]:
        raised, posted = raised + found["raised"], posted + found["posted"]
    assert (raised, posted) == (6_001, 2)  # that it is a pattern is an alert of its own
    assert counts(db)[0] == 6_000
    [first] = [alert for alert in alerts("job_max_retries_exceeded") if alert["state"] == "posted"]
    assert first["suppressed_count"] == 4_999  # of the first look


async def test_a_storm_over_many_subjects_is_few_messages_that_tell_of_all(app, db, alerter, alerts):
    storm(db, 5_000, tenants=50, kinds=100)
    alerting = alerter()
    while (await alerting.run_once())["raised"]:
        pass
    of_type = alerts("job_max_retries_exceeded")
    told = [alert for alert in of_type if alert["state"] == "posted"]
    assert len(told) == MAX_POSTED
    assert sum(alert["suppressed_count"] for alert in told) == 5_000 - MAX_POSTED
    assert db.execute(
        "select coalesce(sum(suppressed_count), 0) from posthouse.alert_cooldowns"
    ).fetchone() == (0,)


async def test_a_continuing_storm_is_reported_again_after_the_cool_down(app, db, alerter, alerts):
    async with testing.clock(app) as clock:
        for _ in range(3):
            storm(db, 500, tenants=20, kinds=50)
            while (await alerter().run_once())["raised"]:
                pass
            await clock.advance("301s")
        await alerter().run_once()
    told = [alert for alert in alerts("job_max_retries_exceeded") if alert["state"] == "posted"]
    assert len(told) == 3 * MAX_POSTED
    assert sum(alert["suppressed_count"] + 1 for alert in told) == 1_500


async def test_a_disabled_alert_type_is_not_sent(db, alerter, alerts):
    db.execute("select posthouse.raise_alert('trigger_error', null, 'nightly', 'no such path')")
    assert (await alerter(alert_types="-trigger_error").run_once())["posted"] == 0
    assert [alert["state"] for alert in alerts()] == ["disabled"]
    assert (await alerter().run_once())["posted"] == 0


async def test_what_happened_while_a_type_was_off_is_not_raised_later(app, jobs, db, alerter, alerts):
    async with testing.clock(app) as clock:
        bury(jobs)
        await clock.advance("20s")
        await catch_up(db, alerter(alert_types="queue_stuck"))
        await alerter().run_once()
    assert alerts("job_max_retries_exceeded") == []


@pytest.fixture
async def alerters(settings):
    """Five of them, each on a connection of its own."""
    connections = [ReconnectingConnection(settings.database_url, "keeper") for _ in range(5)]
    yield [Alerter(connection, settings) for connection in connections]
    for connection in connections:
        await connection.close()


async def test_several_alerters_at_once_raise_and_tell_each_fact_once(jobs, db, alerters, alerts, database):
    stop = threading.Event()

    def bury_some():
        with jobs.new_connection() as other:
            for number in range(60):
                bury(other, kind=f"kind {number % 20}")
        stop.set()

    thread = threading.Thread(target=bury_some)
    thread.start()
    while not stop.is_set():
        await asyncio.gather(*(alerter.run_once() for alerter in alerters))
    thread.join()
    await asyncio.gather(*(alerter.run_once() for alerter in alerters))
    await alerters[0].run_once()
    of_type = alerts("job_max_retries_exceeded")
    assert len(of_type) == 60
    told = [alert for alert in of_type if alert["state"] == "posted"]
    assert len(told) == MAX_POSTED
    assert counts(db)[0] == 60


async def test_a_fact_that_is_committed_long_after_it_happened_is_found(app, jobs, alerter, alerts):
    """Its transaction was open while the alerter looked, many times, past the moment of the fact."""
    async with testing.clock(app) as clock:
        with jobs.new_connection(autocommit=False) as late:
            lost = bury(late)
            for _ in range(5):
                await clock.advance("10m")
                bury(jobs, kind="in time")
                await alerter().run_once()
            late.commit()
        await alerter().run_once()
    found = [alert["details"]["job_id"] for alert in alerts("job_max_retries_exceeded")]
    assert str(lost.id) in found
    assert len(found) == 6


async def test_a_fact_in_a_savepoint_that_is_committed_late_is_found(app, jobs, alerter, alerts):
    async with testing.clock(app) as clock:
        with jobs.new_connection(autocommit=False) as late:
            with late.connection.transaction():
                bury(late)
            for _ in range(3):
                await alerter().run_once()
                await clock.advance("1h")
            late.commit()
        await alerter().run_once()
    assert len(alerts("job_max_retries_exceeded")) == 1


async def test_nothing_is_missed_while_no_alerter_runs(app, jobs, db, alerter, alerts):
    async with testing.clock(app) as clock:
        await catch_up(db, alerter())
        bury(jobs)
        await clock.advance("3d")
        await alerter().run_once()
    assert len(alerts("job_max_retries_exceeded")) == 1


async def test_one_without_destinations_leaves_alerts_to_those_that_have_some(
    jobs, alerter, alerts, receiver
):
    await alerter(alert_webhook_url=receiver.url).run_once()
    bury(jobs)
    assert await alerter().run_once() == {"raised": 1, "posted": 0}
    assert [alert["state"] for alert in alerts()] == ["new"]
    assert (await alerter(alert_webhook_url=receiver.url).run_once())["posted"] == 1


async def test_alerts_are_recorded_without_any_destination(jobs, alerter, alerts, db):
    bury(jobs)
    await alerter().run_once()
    assert [alert["state"] for alert in alerts()] == ["posted"]
    assert db.execute("select count(*) from posthouse.alert_deliveries").fetchone() == (0,)


async def test_deliveries_raise_no_alerts(jobs, alerter, alerts, db):
    for kind in ("posthouse.webhook", "posthouse.other"):
        for _ in range(6):
            bury(jobs, kind=kind)
    db.execute("update posthouse.history set last_error = 'x'")
    assert await alerter().run_once() == {"raised": 0, "posted": 0}


async def test_old_alerts_are_deleted_with_the_jobs(app, jobs, alerter, alerts, db):
    async with testing.clock(app) as clock:
        bury(jobs)
        await alerter().run_once()
        await clock.advance("31d")
        await catch_up(db, alerter())
        db.execute("select posthouse.delete_stale_rows(posthouse.now() - interval '30 days')")
        assert alerts() == []
        await alerter().run_once()
        assert alerts() == []  # its fact is not found again


async def test_a_keeper_that_dies_while_it_posts_leaves_everything_to_the_next(
    database, db, alerts, alerter, receiver
):
    """Both steps are one transaction each: killed in the middle, it has done nothing."""
    bury(Engine(db, database))
    dying = psycopg.connect(database)
    with closing(dying):
        dying.execute("select posthouse.detect_alerts('{job_max_retries_exceeded}')")
        dying.execute("select posthouse.post_alerts('{job_max_retries_exceeded}', '{webhook}')")
        db.execute("select pg_terminate_backend(%s)", (dying.info.backend_pid,))
    assert alerts() == []
    await alerter(alert_webhook_url=receiver.url).run_once()
    assert [alert["state"] for alert in alerts()] == ["posted"]
    assert db.execute("select count(*) from posthouse.ready").fetchone() == (1,)


async def test_one_that_dies_between_the_two_steps_too(jobs, db, alerts, alerter):
    bury(jobs)
    db.execute("select posthouse.detect_alerts('{job_max_retries_exceeded}')")
    assert [alert["state"] for alert in alerts()] == ["new"]
    assert await alerter().run_once() == {"raised": 0, "posted": 1}


def test_an_operator_who_deactivates_the_deliveries_still_sees_alerts(jobs, db, alerts):
    db.execute(
        "insert into posthouse.definitions (key, active, updated_at) "
        "values ('posthouse.webhook', false, now())"
    )
    bury(jobs)
    db.execute("select posthouse.detect_alerts('{job_max_retries_exceeded}')")
    db.execute("select posthouse.post_alerts('{job_max_retries_exceeded}', '{webhook}')")
    assert [alert["state"] for alert in alerts()] == ["posted"]
