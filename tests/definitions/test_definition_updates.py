"""A change reaches workers that run."""

import pytest

import posthouse
from posthouse import testing
from posthouse.errors import ConfigurationError, InvalidDefinition
from posthouse.worker import definitions
from support.waiting import eventually
from support.workers import attempt_outcomes, job_row, running_worker


async def test_an_operators_retry_policy_counts_at_once_and_goes_when_it_is_cleared(app, change, db):
    @app.job(retry=posthouse.Retry("1h"), max_attempts=5)
    async def flaky() -> None:
        raise ValueError("no")

    async with running_worker(app) as worker:
        change("flaky", retry={"ladder": [7200]})
        await eventually(
            lambda: worker.definition_watcher.retry("flaky") is not None, what="the change's arrival"
        )
        job = await flaky.enqueue()
        await eventually(lambda: attempt_outcomes(db, job.id) == [(1, "failed")], what="the failure")
        found = job_row(db, job.id)
        assert 7000 < (found["scheduled_for"] - found["queued_at"]).total_seconds() < 7300
        change("flaky", clear=["retry"])
        await eventually(
            lambda: worker.definition_watcher.retry("flaky") is None, what="the change's arrival"
        )


async def test_a_change_arrives_without_notifications_too(app, change, monkeypatch):
    @app.job()
    async def mail() -> None: ...

    monkeypatch.setattr(definitions, "RELOAD_SECONDS", 0.05)
    monkeypatch.setattr(definitions.DefinitionWatcher, "invalidate", lambda _: None)
    async with running_worker(app) as worker:
        worker.definition_watcher.is_notified = lambda: False
        change("mail", active=False)
        await eventually(
            lambda: not worker.definition_watcher.get("mail").active, what="the change's arrival"
        )


async def test_a_removed_definition_is_gone_for_workers_too_and_comes_back_with_the_next_start(app, db):
    @app.job()
    async def mail() -> None: ...

    async with running_worker(app) as worker:
        db.execute("select posthouse.remove_definition('mail')")
        await eventually(lambda: worker.definition_watcher.get("mail") is None, what="the removal's arrival")
    await testing.drain(app)
    assert db.execute("select key from posthouse.definitions").fetchall() == [("mail",)]


async def test_an_operators_timeout_holds_for_jobs_enqueued_from_now_on(app, change, db):
    @app.job(timeout="1h")
    async def mail() -> None: ...

    await testing.drain(app)
    change("mail", timeout_seconds=77)
    job = await mail.enqueue()
    assert job_row(db, job.id)["timeout_seconds"] == 77


async def test_a_worker_announces_all_that_its_handlers_say(app, db):
    @app.job(requires=["gpu"], prefers=["nvme"], redact=["iban"], active=False, retry=posthouse.Retry("1m"))
    async def mail(iban: str) -> None:
        """Sends one."""

    await testing.drain(app)
    found = db.execute(
        "select description, requires, prefers, redact, active, retry, origin, runner "
        "from posthouse.definitions"
    ).fetchone()
    retry = {"ladder": [60.0], "jitter": 0.0}
    assert found == ("Sends one.", ["gpu"], ["nvme"], ["iban"], False, retry, "code", "handler")


@pytest.mark.parametrize("options", [{"redact": "iban"}, {"requires": [""]}, {"prefers": [7]}])
def test_a_handler_that_says_it_wrong_is_told_so(app, options):
    with pytest.raises(ConfigurationError, match="list of non-empty strings"):

        @app.job(**options)
        async def mail() -> None: ...


async def test_a_worker_whose_handler_has_the_name_of_a_command_does_not_start(app, create):
    create("mail")

    @app.job()
    async def mail() -> None: ...

    worker = await app.worker()
    with pytest.raises(InvalidDefinition, match="command of that name is defined"):
        await worker.start()
    await worker.leases.close()
