"""posthouse demo crash: faults on purpose, exact effects, and nothing left behind."""

import json
import signal

import psutil
import pytest

from support.waiting import eventually_sync


@pytest.fixture
def temporary(no_database):
    """The folder that the demo makes its own in."""
    folder = no_database.folder / "t"  # short: it holds the path of a socket
    folder.mkdir(mode=0o711)
    no_database.env["TMPDIR"] = str(folder)
    return folder


def processes_in(folder):
    """Postgres and the workers of a demo in this folder."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "cwd"])
        if any(str(folder) in part for part in (*(process.info["cmdline"] or ()), process.info["cwd"] or ""))
    ]


@pytest.mark.timeout(300)
def test_killed_workers_and_a_killed_postgres_neither_lose_nor_double_an_effect(no_database, temporary):
    demo = no_database.start("demo", "crash", "--jobs", "60", "--json")
    out, _ = demo.process.communicate(timeout=200)
    assert demo.process.returncode == 0, demo.err
    report = json.loads(out)
    assert (report["jobs"], report["effects"], report["missing"], report["doubled"]) == (60, 60, 0, 0)
    assert report["exact"] is True
    assert report["interrupted_attempts"] > 0
    assert [fault["fault"].split()[0] for fault in report["faults"]] == ["killed", "killed", "stopped"]
    assert "between its write and its commit" in demo.err
    assert processes_in(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.soak
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_demo_stops_its_workers_and_postgres(no_database, temporary, number, code):
    demo = no_database.start("demo", "crash", "--jobs", "5000")
    eventually_sync(lambda: "of 5,000 effects" in demo.err)
    assert demo.stop(number) == code
    assert "Traceback" not in demo.err
    assert processes_in(temporary) == []
    assert list(temporary.iterdir()) == []


def test_too_few_jobs_are_refused(no_database):
    refused = no_database("demo", "crash", "--jobs", "3")
    assert refused.code == 2
    assert "--jobs must be at least 10" in refused.err
