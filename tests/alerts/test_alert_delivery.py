"""Told alerts arrive: retried after an error, given up visibly, and not lost with a keeper."""

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from posthouse import App, testing
from posthouse.alerts import delivery
from posthouse.alerts.delivery import DeliveryWorker
from posthouse.errors import ConfigurationError
from posthouse.keeper import agenda
from posthouse.maintenance import Maintenance
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from support.waiting import WAIT_SECONDS, eventually, eventually_sync
from support.webhook_receiver import receiving
from support.workers import job_row

RAISE = "select posthouse.raise_alert('trigger_error', 'acme', %s, 'no such path')"


@pytest.fixture
async def maintenance(alerting, monkeypatch):
    """A process that keeps house, as far as alerts are concerned, and looks often."""
    monkeypatch.setattr(agenda, "BACKGROUND_SECONDS", 0.1)
    monkeypatch.setattr(delivery, "POLL_SECONDS", 0.1)
    started = []

    async def start(**changes):
        settings = replace(alerting, **changes)
        keeping = Maintenance(settings.database_url, settings)
        started.append(keeping)
        await keeping.start()
        return keeping

    yield start
    for keeping in started:
        await keeping.stop()


def deliveries(db):
    """(destination, state) of each."""
    return db.execute("select destination, state from posthouse.alert_deliveries order by 1").fetchall()


def counts(db):
    return db.execute(
        "select raised, suppressed, sent, failed from posthouse.alert_types where type = 'trigger_error'"
    ).fetchone()


async def test_an_alert_arrives_and_is_counted(db, receiver, maintenance):
    db.execute(RAISE, ("nightly",))
    await maintenance()
    await eventually(lambda: counts(db) == (1, 0, 1, 0), what="the delivery")
    [alert] = receiver.alerts
    assert (alert["type"], alert["tenant_id"], alert["subject"]) == ("trigger_error", "acme", "nightly")
    assert deliveries(db) == [("webhook", "sent")]


async def test_every_destination_gets_it_and_one_that_fails_holds_up_none(db, receiver, maintenance):
    with receiving() as other:
        other.answers.extend([500] * 10)
        await maintenance(alert_webhook_url=f"good={receiver.url} bad=slack+{other.url}")
        db.execute(RAISE, ("nightly",))
        await eventually(lambda: receiver.received and other.received)
        await eventually(lambda: ("good", "sent") in deliveries(db))
    assert ("bad", "queued") in deliveries(db)


async def job_fields(db):
    [(job,)] = db.execute("select job_id from posthouse.alert_deliveries").fetchall()
    return job_row(db, job)


async def test_it_is_sent_again_after_an_error_and_is_the_same_message(app, db, receiver, maintenance):
    receiver.answers.append(500)
    db.execute(RAISE, ("nightly",))
    await maintenance()
    await eventually(lambda: receiver.received)
    await eventually(lambda: db.execute("select 1 from posthouse.waiting").fetchone(), what="the retry")
    async with testing.clock(app) as clock:
        await clock.advance("11s")
        await eventually(lambda: len(receiver.received) == 2, what="the second try")
        await eventually(lambda: counts(db) == (1, 0, 1, 0), what="the end")
    first, second = receiver.received
    assert first.body == second.body
    assert first.headers["Posthouse-Alert"] == second.headers["Posthouse-Alert"]


async def test_it_arrives_when_the_destination_comes_back(app, db, alerting, maintenance):
    with receiving() as gone:
        pass
    url = gone.url
    db.execute(RAISE, ("nightly",))
    await maintenance(alert_webhook_url=url)
    await eventually(lambda: db.execute("select 1 from posthouse.waiting").fetchone(), what="the retry")
    with receiving(port=gone.port) as back:
        async with testing.clock(app) as clock:
            await clock.advance("11s")
            await eventually(lambda: back.received, what="the second try")
            await eventually(lambda: counts(db) == (1, 0, 1, 0), what="the end")


async def test_one_that_never_arrives_ends_in_the_dead_letter_and_raises_nothing(
    app, db, receiver, maintenance
):
    receiver.answers.extend([503] * 20)
    db.execute(RAISE, ("nightly",))
    await maintenance()
    async with testing.clock(app) as clock:
        for tries in range(1, 7):
            await eventually(lambda tries=tries: len(receiver.received) >= tries, what=f"try {tries}")
            if tries < 6:
                await eventually(lambda: db.execute("select 1 from posthouse.waiting").fetchone())
                await clock.advance("61m")
        await eventually(lambda: counts(db) == (1, 0, 0, 1), what="the end")
    job = await job_fields(db)
    assert (job["status"], job["attempt_count"]) == ("dead_letter", 6)
    assert deliveries(db) == [("webhook", "failed")]
    [(error,)] = db.execute("select error from posthouse.alert_deliveries").fetchall()
    assert "status 503" in error
    assert db.execute("select count(*) from posthouse.alerts").fetchone() == (1,)


async def test_a_destination_at_a_private_address_is_refused_for_good(db, receiver, maintenance):
    db.execute(RAISE, ("nightly",))
    await maintenance(alert_private_addresses=False)
    await eventually(lambda: counts(db) == (1, 0, 0, 1), what="the end")
    job = await job_fields(db)
    assert (job["status"], job["attempt_count"]) == ("failed", 1)
    assert receiver.received == []


async def test_a_job_that_the_alerter_did_not_make_sends_nothing(db, receiver, maintenance):
    """A caller that may enqueue could otherwise write into the operators' channel."""
    [(forged,)] = db.execute(
        "select posthouse.enqueue('posthouse.webhook', "
        '\'{"alert": "01890a5d-ac96-774b-bcce-b302099a8057", "destination": "webhook"}\', '
        "queue => 'posthouse.system', requires => '{webhook:webhook}')"
    ).fetchall()
    await maintenance()
    await eventually(lambda: job_row(db, forged)["status"] == "failed")
    assert receiver.received == []


async def test_only_a_process_that_knows_the_destination_takes_the_job(db, alerting, receiver):
    db.execute(RAISE, ("nightly",))
    knowing = Maintenance(alerting.database_url, alerting)
    await knowing.keeper.alerter.run_once()
    other = replace(alerting, alert_webhook_url="other=" + receiver.url)
    connection = ReconnectingConnection(other.database_url, "keeper")
    delivery = DeliveryWorker(other.database_url, other, connection)
    assert await delivery.run_once() == {"started": 0}
    assert await knowing.alert_delivery.run_once() == {"started": 1}
    await eventually(lambda: receiver.received)
    await delivery.stop()
    await connection.close()
    await knowing.stop()


async def test_a_courier_with_nothing_to_do_has_no_worker(db, alerting, receiver):
    db.execute(RAISE, ("nightly",))
    keeping = Maintenance(alerting.database_url, alerting)
    keeping.alert_delivery = delivery = DeliveryWorker(
        alerting.database_url, alerting, keeping._connection, idle_seconds=0.0
    )
    assert await delivery.run_once() == {"started": 0}
    assert not delivery.is_running
    await keeping.keeper.alerter.run_once()
    await delivery.run_once()
    assert delivery.is_running
    await eventually(lambda: receiver.received)
    async with asyncio.timeout(WAIT_SECONDS):
        while delivery.is_running:
            await delivery.run_once()
    await keeping.keeper.alerter.run_once()
    assert counts(db) == (1, 0, 1, 0)
    await keeping.stop()


async def test_undeliverable_messages_are_given_up_after_a_day(app, db, alerting):
    db.execute(RAISE, ("nightly",))
    keeping = Maintenance(alerting.database_url, replace(alerting, alert_webhook_url="http://gone.test/"))
    await keeping.keeper.alerter.run_once()
    async with testing.clock(app) as clock:
        await clock.advance("25h")
        await keeping.keeper.alerter.run_once()
        await keeping.keeper.alerter.run_once()
    assert counts(db) == (1, 0, 0, 1)
    await keeping.stop()


@pytest.mark.soak
@pytest.mark.parametrize("command", [("keeper",), ("up", "--port", "0", "--no-demo")])
def test_the_commands_deliver(posthouse, db, receiver, command):
    env = {"POSTHOUSE_ALERT_WEBHOOK_URL": receiver.url, "POSTHOUSE_ALERT_PRIVATE_ADDRESSES": "true"}
    running = posthouse.start(*command, **env)
    db.execute(RAISE, ("nightly",))
    eventually_sync(lambda: receiver.received, what="the message")
    eventually_sync(lambda: counts(db) == (1, 0, 1, 0), what="the end")
    assert running.stop() == 0


def test_a_keeper_killed_in_the_middle_of_a_delivery_loses_nothing(posthouse, db, receiver):
    """It dies with the message on its way; the next one sends it again."""
    env = {
        "POSTHOUSE_ALERT_WEBHOOK_URL": receiver.url,
        "POSTHOUSE_ALERT_PRIVATE_ADDRESSES": "true",
        "POSTHOUSE_HEARTBEAT_SECONDS": "0.2",
        "POSTHOUSE_LEASE_SECONDS": "20",
        "POSTHOUSE_RESCUE_GRACE_SECONDS": "0",
    }
    first = posthouse.start("keeper", **env)
    receiver.answers.append(lambda handler: os.kill(first.process.pid, signal.SIGKILL))
    db.execute(RAISE, ("nightly",))
    eventually_sync(lambda: first.process.poll() is not None, what="the first keeper's death")
    second = posthouse.start("keeper", **env)
    eventually_sync(lambda: len(receiver.received) == 2, what="the second try")
    eventually_sync(lambda: counts(db) == (1, 0, 1, 0), what="the end")
    assert second.stop() == 0
    assert len({request.headers["Posthouse-Alert"] for request in receiver.received}) == 1


CANARY = "T0KEN-that-is-never-shown"


def test_neither_the_url_nor_the_secret_is_seen_anywhere(posthouse, db, receiver):
    def echo(handler):
        text = f"{receiver.url} s3cret-s3cret"
        handler.send_response(500)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text.encode())

    receiver.answers.append(echo)
    env = {
        "POSTHOUSE_ALERT_WEBHOOK_URL": receiver.url,
        "POSTHOUSE_ALERT_WEBHOOK_SECRET": "s3cret-s3cret",
        "POSTHOUSE_ALERT_PRIVATE_ADDRESSES": "true",
    }
    running = posthouse.start("keeper", "--log-level", "debug", **env)
    db.execute(RAISE, ("nightly",))
    eventually_sync(lambda: db.execute("select 1 from posthouse.past_attempts").fetchone(), what="the error")
    running.stop()
    [(job,)] = db.execute("select job_id from posthouse.alert_deliveries").fetchall()
    seen = running.rest + running.err
    for arguments in (
        ("jobs", "show", job), ("jobs", "attempts", job, "--traceback"), ("jobs", "logs", job), ("workers",),
        ("alerts", "list"), ("alerts", "list", "--json"), ("alerts", "test"), ("definitions",), ("config",),
        ("doctor",),
    ):  # fmt: skip
        done = posthouse(*arguments, **env)
        seen += done.out + done.err
    for table in (
        "jobs",
        "alerts",
        "alert_deliveries",
        "past_attempts",
        "definitions",
        "workers",
        "log_lines",
    ):
        rows = db.execute(f"select to_jsonb(t)::text from posthouse.{table} as t").fetchall()
        seen += " ".join(text for (text,) in rows)
    assert "status 500" in seen
    assert CANARY not in seen
    assert "s3cret" not in seen


def test_kinds_of_our_own_are_not_for_apps(database):
    app = App(settings=Settings(database_url=database))
    with pytest.raises(ConfigurationError, match="posthouse"):

        @app.job("posthouse.webhook")
        async def mine() -> None: ...
