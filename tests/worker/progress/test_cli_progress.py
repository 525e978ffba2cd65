"""posthouse jobs show, logs and retry --fresh, as people run them."""

import asyncio
import json
import os
import subprocess

import pytest

import posthouse
from posthouse import testing
from support import forkserver
from support.waiting import WAIT_SECONDS, eventually
from support.workers import job_status, running_worker


@pytest.fixture
def command(database, tmp_path):
    def run(*arguments, check=True):
        done = forkserver.run_posthouse(arguments, folder=tmp_path, env=environment(database))
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


def environment(database):
    return {**os.environ, "POSTHOUSE_DATABASE_URL": database, "NO_COLOR": "1", "COLUMNS": "120"}


def started(database, *arguments):
    words = ["-m", "posthouse", *arguments]
    return forkserver.start_python(
        words, env=environment(database), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.fixture
def transcode(app):
    @app.job(max_attempts=1)
    async def transcode(job: posthouse.Job):
        job.log.info("probing")
        job.emit_output("stderr", "codec: h264\n")
        await job.step("probe", lambda: {"height": 1080})
        await job.part("1080p", total=4).progress(done=1, message="segment 1")
        await job.part("4k").skip("source is 1080p")
        raise ValueError("no space")

    return transcode


async def test_show_has_a_bar_the_parts_and_the_steps(app, transcode, command):
    handle = await transcode.enqueue()
    await testing.drain(app)
    shown = (await asyncio.to_thread(command, "jobs", "show", str(handle.id))).stdout
    assert "█████░░░░░░░░░░░░░░░ 25 %" in shown
    assert "1080p  in_progress  █████░░░░░░░░░░░░░░░ 25 %" in shown
    assert "1/4" in shown
    assert "source is 1080p" in shown
    assert '{"height": 1080}' in shown
    found = json.loads((await asyncio.to_thread(command, "jobs", "show", str(handle.id), "--json")).stdout)
    assert found["progress_percent"] == 25
    assert [(part["name"], part["status"]) for part in found["parts"]] == [
        ("1080p", "in_progress"),
        ("4k", "skipped"),
    ]
    assert [(step["name"], step["result"]) for step in found["steps"]] == [("probe", {"height": 1080})]


async def test_logs_prints_lines_and_json(app, transcode, command):
    handle = await transcode.enqueue()
    await testing.drain(app)
    shown = (await asyncio.to_thread(command, "jobs", "logs", str(handle.id))).stdout.splitlines()
    assert [line.split("  ", 1)[1] for line in shown] == ["probing", "stderr: codec: h264"]
    found = json.loads((await asyncio.to_thread(command, "jobs", "logs", str(handle.id), "--json")).stdout)
    assert [(line["stream"], line["text"]) for line in found] == [
        ("log", "probing"),
        ("stderr", "codec: h264"),
    ]
    for attempt, count in (("1", 2), ("1.1", 2), ("2", 0), ("2.1", 0)):
        some = await asyncio.to_thread(
            command, "jobs", "logs", str(handle.id), "--attempt", attempt, "--json"
        )
        assert len(json.loads(some.stdout)) == count, attempt
    wrong = await asyncio.to_thread(command, "jobs", "logs", str(handle.id), "--attempt", "last", check=False)
    assert wrong.returncode == 2
    assert "invalid --attempt" in wrong.stderr


async def test_logs_follow_and_show_watch_go_along_and_end_with_the_job(app, database):
    go = asyncio.Event()

    @app.job()
    async def talk(job: posthouse.Job):
        job.log.info("first")
        await job.progress(10)
        await go.wait()
        job.log.info("last")
        await job.progress(90)

    handle = await talk.enqueue()
    async with running_worker(app):
        tail = started(database, "jobs", "logs", str(handle.id), "--follow", "--json")
        watch = started(database, "jobs", "show", str(handle.id), "--watch", "--json")
        async with asyncio.timeout(WAIT_SECONDS):
            assert json.loads(await asyncio.to_thread(tail.stdout.readline))["text"] == "first"
            while json.loads(await asyncio.to_thread(watch.stdout.readline))["progress_percent"] != 10:
                pass
            go.set()
            assert json.loads(await asyncio.to_thread(tail.stdout.readline))["text"] == "last"
            rest, trouble = await asyncio.to_thread(tail.communicate)
            seen, more_trouble = await asyncio.to_thread(watch.communicate)
    assert (rest, trouble, more_trouble) == ("", "", "")
    last = json.loads(seen.splitlines()[-1])
    assert (last["status"], last["progress_percent"]) == ("succeeded", 100)
    assert (tail.returncode, watch.returncode) == (0, 0)


async def test_a_fresh_retry_forgets_steps_and_parts_and_the_audit_says_so(
    app, db, transcode, command, steps
):
    handle = await transcode.enqueue()
    await testing.drain(app)
    assert len(steps(handle.id)) == 1
    await asyncio.to_thread(command, "jobs", "retry", str(handle.id), "--fresh")
    await eventually(lambda: job_status(db, handle.id) == "queued")
    assert steps(handle.id) == []
    (after,) = db.execute("select after from posthouse.audit where action = 'job.retry'").fetchone()
    assert after["fresh"] is True
