"""Definitions that come, change and go while a worker runs."""

import pytest

from posthouse.errors import ConfigurationError, InactiveDefinition
from support.command_jobs import shell
from support.waiting import eventually
from support.workers import job_status, running_worker


def serves(db):
    return db.execute("select queues, kinds from posthouse.workers where stopped_at is null").fetchone()


async def test_a_command_that_is_defined_later_is_run_without_a_restart(app, client, db, define):
    async with running_worker(app, commands=True):
        assert serves(db) == ([], [])
        define("late", shell("echo '\"late\"'"), result="json", fields={"queue": "night"})
        await eventually(lambda: serves(db) == (["night"], ["late"]), what="the worker's knowledge")
        job = await client.enqueue("late")
        assert await client.wait(job.id, 20) == "late"


async def test_a_job_that_waited_for_its_definition_is_run(app, client, db, define):
    async with running_worker(app, commands=True):
        job = await client.enqueue("late")
        define("late", shell("true"))
        await client.wait(job.id, 20)


async def test_the_next_run_uses_the_new_template(app, client, change, define):
    define("say", shell("echo 1"), result="json")
    async with running_worker(app, commands=True) as worker:
        assert await client.wait((await client.enqueue("say")).id, 20) == 1
        change("say", command={"argv": shell("echo 2"), "result": "json"})
        await eventually(
            lambda: worker.definition_watcher.get("say").command["argv"][2] == "echo 2", what="the change"
        )
        assert await client.wait((await client.enqueue("say")).id, 20) == 2


async def test_a_removed_command_is_served_no_more(app, db, define):
    define("gone", shell("true"))
    define("here", shell("true"))
    async with running_worker(app, commands=True):
        assert serves(db) == (["default"], ["gone", "here"])
        db.execute("select posthouse.remove_definition('gone')")
        await eventually(lambda: serves(db) == (["default"], ["here"]), what="the worker's knowledge")


async def test_an_inactive_command_takes_no_jobs_and_finishes_those_it_has(app, client, change, db, define):
    define("off", shell("true"))
    job = await client.enqueue("off")
    change("off", active=False)
    with pytest.raises(InactiveDefinition):
        await client.enqueue("off")
    async with running_worker(app, commands=True):
        await client.wait(job.id, 20)


async def test_a_worker_with_chosen_queues_takes_commands_from_those_only(app, client, db, define):
    define("here", shell("true"), fields={"queue": "day"})
    define("there", shell("true"), fields={"queue": "night"})
    async with running_worker(app, commands=True, queues=["day"]):
        there = await client.enqueue("there")
        await client.wait((await client.enqueue("here")).id, 20)
        moved = await client.enqueue("there", queue="day")
        await client.wait(moved.id, 20)
        assert job_status(db, there.id) == "queued"


async def test_a_worker_that_is_not_told_to_runs_no_commands(app, client, db, define):
    define("list", shell("true"))

    @app.job()
    async def mail() -> None: ...

    job = await client.enqueue("list")
    async with running_worker(app):
        await client.wait((await mail.enqueue()).id, 20)
        assert serves(db)[1] == ["mail"]
    assert job_status(db, job.id) == "queued"


async def test_a_worker_without_handlers_and_commands_has_nothing_to_do(app):
    with pytest.raises(ConfigurationError, match="has no job kinds to run"):
        await app.worker()


async def test_an_invalid_stored_command_does_not_stop_other_jobs(app, client, db, define):
    db.execute("select posthouse.create_definition('wrong', '{\"command\": {\"argv\": []}}')")
    define("right", shell("true"))
    async with running_worker(app, commands=True):
        await client.wait((await client.enqueue("right")).id, 20)
        assert serves(db)[1] == ["right"]
