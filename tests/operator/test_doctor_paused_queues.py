"""What the doctor reports about paused jobs."""

import pytest

from posthouse import testing
from posthouse.insights.doctor import run_checks


@pytest.fixture
def findings(database, settings):
    async def look():
        return {finding.check: finding for finding in await run_checks(database, settings)}

    return look


PAUSES = {
    "nothing": ("select", "error"),
    "a paused queue": ("select posthouse.pause_queue('default')", "ok"),
    "a full limit": ("""select posthouse.set_limit('none', '{"max_running": 0}')""", "ok"),
}


@pytest.mark.parametrize("pause", PAUSES)
async def test_a_queue_that_is_meant_to_wait_is_not_stuck(app, findings, db, fleet, pause):
    statement, severity = PAUSES[pause]
    worker = fleet.register()
    db.execute("select posthouse.enqueue('mail')")
    db.execute(statement)
    async with testing.clock(app) as clock:
        await clock.advance("2m")
        fleet.beat(worker)
        assert (await findings())["stuck"].severity == severity


async def test_jobs_that_only_a_disabled_worker_could_run_are_unserved(findings, db, enqueue, fleet):
    worker = fleet.register()
    enqueue("mail")
    assert (await findings())["unserved"].severity == "ok"
    db.execute("select posthouse.disable_worker(%s)", (worker,))
    assert (await findings())["unserved"].severity != "ok"


async def test_jobs_that_require_what_no_worker_offers_are_unserved(findings, enqueue, fleet):
    fleet.register(capabilities=["gpu"])
    enqueue("mail", requires=["gpu"])
    assert (await findings())["unserved"].severity == "ok"
    enqueue("mail", requires=["disk"])
    assert "mail with disk" in (await findings())["unserved"].summary
