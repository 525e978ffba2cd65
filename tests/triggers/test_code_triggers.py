"""Triggers that are declared beside their handlers."""

import psycopg
import pytest

from posthouse import App, triggers
from posthouse.errors import InvalidPayload, InvalidTrigger
from support.waiting import eventually
from support.workers import running_worker


def found(db):
    columns = "name, type, event_name, cron_expr, timezone, enabled, origin"
    return db.execute(f"select {columns} from posthouse.triggers order by name").fetchall()


async def test_a_worker_announces_the_triggers_of_its_code(app, db):
    seen = []

    @app.job()
    async def resync(folder: int):
        seen.append(folder)

    resync.on_event("folder.*", {"folder": "{{event.id}}"})
    resync.on_schedule("0 2 * * *", {"folder": 0}, zone="Europe/Paris")
    async with running_worker(app):
        assert found(db) == [
            ("resync event 1", "event", "folder.*", None, None, True, "code"),
            ("resync schedule 1", "schedule", None, "0 2 * * *", "Europe/Paris", True, "code"),
        ]
        await app.client.emit("folder.updated", {"id": 7})
        await eventually(lambda: seen == [7])


async def test_what_an_operator_changed_stays_until_the_code_says_something_else(settings, db):
    def version(cron):
        app = App(settings=settings)

        @app.job()
        async def report():
            pass

        if cron:
            report.on_schedule(cron)
        return app

    async with running_worker(version("0 2 * * *"), keeper=False):
        (trigger,) = db.execute("select id from posthouse.triggers").fetchone()
    async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as connection:
        await triggers.change_trigger(connection, trigger, {"enabled": False}, actor="ada")
    async with running_worker(version("0 2 * * *"), keeper=False):
        assert found(db)[0][3:6] == ("0 2 * * *", "UTC", False)
    async with running_worker(version("0 3 * * *"), keeper=False):
        assert found(db)[0][3:6] == ("0 3 * * *", "UTC", False)
    async with running_worker(version(None), keeper=False):
        assert found(db) == []


@pytest.mark.parametrize(
    ("declare", "error", "says"),
    [
        (lambda job: job.on_event("two words", {"folder": 1}), InvalidTrigger, "a name like order.paid"),
        (lambda job: job.on_event("x", {"folder": "{{nowhere}}"}), InvalidTrigger, "must start with one of"),
        (lambda job: job.on_event("x", {"folder": "seven"}), InvalidPayload, "folder"),
        (lambda job: job.on_schedule("@daily"), InvalidPayload, "folder"),
        (
            lambda job: job.on_schedule("@daily", {"folder": 1}, missed="never"),
            InvalidTrigger,
            "trigger.missed",
        ),
    ],
)
def test_an_invalid_trigger_is_rejected_at_its_declaration(settings, declare, error, says):
    app = App(settings=settings)

    @app.job()
    async def resync(folder: int):
        pass

    with pytest.raises(error) as raised:
        declare(resync)
    assert says in str(raised.value)
