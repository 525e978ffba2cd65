"""Jobs that no process could find, applications that do not load, and workers that are killed."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import process_jobs as jobs
import psutil
import pytest
import unimportable_app

import posthouse
from posthouse.errors import ConfigurationError
from support import forkserver
from support.processes import alive
from support.waiting import eventually
from support.workers import job_status

HERE = Path(__file__).parent
pytestmark = pytest.mark.usefixtures("leftovers")


async def started(app):
    worker = await app.worker()
    await worker.start()
    await worker.stop()


async def test_a_handler_inside_a_function_is_refused_when_the_worker_starts(app):
    @app.job(runner="process")
    def inner():
        pass

    with pytest.raises(
        ConfigurationError, match=r"inner: .* defined inside a function; define it in a module"
    ):
        await started(app)


async def test_a_handler_of_the_script_itself_is_refused_when_the_worker_starts(app):
    def scripted():
        pass

    scripted.__module__, scripted.__qualname__ = "__main__", "scripted"
    app.job(runner="process")(scripted)
    with pytest.raises(ConfigurationError, match=r"scripted: .* in the main script; move it to a module"):
        await started(app)


async def test_a_handler_that_is_not_what_its_module_holds_is_refused_when_the_worker_starts(app):
    app.job("other", runner="process")(jobs.echo._handler)
    with pytest.raises(
        ConfigurationError, match=r"other: .* echo in module process_jobs is a different object"
    ):
        await started(app)


async def test_an_application_that_does_not_load_keeps_the_worker_from_starting(settings, monkeypatch):
    monkeypatch.setenv("CROOKED_PARENT", str(os.getpid()))
    app = posthouse.App(settings=settings)
    app.definitions.update(unimportable_app.app.definitions)
    with pytest.raises(ConfigurationError, match="RuntimeError: only loads once"):
        await started(app)


def test_wrong_runners_are_refused_at_once(settings):
    app = posthouse.App(settings=settings)
    with pytest.raises(ConfigurationError, match="runner must be one of auto, process, not 'thred'"):
        app.job(runner="thred")(len)
    with pytest.raises(ConfigurationError, match=r'memory_mb .* requires runner="process"'):
        app.job("x", memory_mb=5)(jobs.echo._handler)


@contextlib.contextmanager
def worker_command(database, slots):
    environment = {**os.environ, "POSTHOUSE_DATABASE_URL": database, "POSTHOUSE_PROCESS_SLOTS": str(slots)}
    words = ["-m", "posthouse", "worker", "--app", "process_jobs:app", "--no-keeper"]
    with forkserver.start_python(words, folder=HERE, env=environment, stderr=subprocess.DEVNULL) as worker:
        try:
            yield worker
        finally:
            worker.kill()


async def test_a_killed_worker_leaves_nothing_behind(process_app, database, db, marker_file):
    """Neither a process that is deep in C code, nor a program that it started, nor the idle ones."""
    handle = await jobs.spawn_and_hang.enqueue(marker_file=marker_file.folder)
    with worker_command(database, 3) as worker:
        pids = await eventually(marker_file.pids)
        family = psutil.Process(worker.pid).children(recursive=True)
        assert {*pids} < {process.pid for process in family}
        assert len(family) >= 5
        os.kill(worker.pid, signal.SIGKILL)
        await eventually(lambda: not any(alive(process.pid) for process in family))
    assert job_status(db, handle.id) == "running", "it was not rescued yet"


async def test_a_signal_to_the_whole_family_lets_the_worker_drain(process_app, database, db, marker_file):
    handle = await jobs.report.enqueue(marker_file=marker_file.folder)
    with worker_command(database, 1) as worker:
        await eventually(lambda: job_status(db, handle.id) == "running")
        family = psutil.Process(worker.pid).children(recursive=True)
        for process in [*family, worker]:
            process.send_signal(signal.SIGTERM)
        marker_file.go()
        await eventually(lambda: worker.poll() is not None)
    assert worker.returncode == 0
    assert job_status(db, handle.id) == "succeeded"
    assert not any(alive(process.pid) for process in family)
