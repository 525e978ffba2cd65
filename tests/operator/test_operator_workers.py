"""posthouse workers: what they are, and disabled, enabled and drained while they run."""

import json
import signal

import pytest

from support.waiting import WAIT_SECONDS, eventually_sync
from support.workers import job_status, status_counts


def running(db):
    return db.execute("select count(*) from posthouse.running").fetchone()[0]


@pytest.fixture
def listed(posthouse):
    """The workers that are shown, by name."""
    return lambda *flags: {item["name"]: item for item in posthouse("workers", *flags, "--json").json}


def test_a_worker_shows_what_it_is_and_what_it_runs(posthouse, start_worker, enqueue, db, listed):
    start_worker(
        "--name", "studio", "--concurrency", "2", "--capability", "gpu", "--capability", "codec:h264",
        POSTHOUSE_WORKER_METADATA='{"pod": "a-1", "password": "hunter2"}',
    )  # fmt: skip
    assert listed()["studio"]["status"] == "idle"
    job = enqueue("hold")
    eventually_sync(lambda: running(db) == 1)

    found = listed()["studio"]
    assert (found["status"], found["running"], found["capabilities"]) == ("active", 1, ["codec:h264", "gpu"])
    assert found["capability_details"] == {"codec:h264": True, "gpu": True}
    assert found["metadata"]["pod"] == "a-1"
    assert "hunter2" not in str(found)
    assert [(item["id"], item["kind"]) for item in found["jobs"]] == [(str(job), "hold")]
    assert 0 <= found["heartbeat_seconds"] < 60
    assert found["version"]

    enqueue("hold")
    eventually_sync(lambda: running(db) == 2)
    assert listed()["studio"]["status"] == "busy"
    line = posthouse("workers").out.splitlines()[1]
    assert "studio" in line
    assert "busy" in line
    assert "hold, hold" in line


def test_a_disabled_worker_takes_nothing_and_keeps_what_it_runs(posthouse, start_worker, enqueue, db, gate):
    start_worker("--name", "studio")
    held = enqueue("hold")
    eventually_sync(lambda: job_status(db, held) == "running")

    assert posthouse("workers", "disable", "studio").code == 0
    waits = enqueue("quick")
    assert posthouse("workers", "--json").json[0]["status"] == "disabled"
    gate.open()
    eventually_sync(lambda: job_status(db, held) == "succeeded")
    assert job_status(db, waits) == "queued"
    why = posthouse("jobs", "why", waits, "--json").json
    assert why["reason"] == "no_worker"
    assert "studio (disabled)" in why["summary"]

    assert posthouse("workers", "enable", "studio").code == 0
    eventually_sync(lambda: job_status(db, waits) == "succeeded")
    actions = db.execute("select action from posthouse.audit where actor like 'cli:%' order by id").fetchall()
    assert actions == [("worker.disable",), ("worker.enable",)]


def test_a_drained_worker_finishes_its_work_and_ends_well(posthouse, start_worker, enqueue, db, gate):
    """However long that takes: the time that SIGTERM gives does not count here."""
    worker = start_worker("--name", "studio", POSTHOUSE_DRAIN_SECONDS="0")
    held = enqueue("hold")
    eventually_sync(lambda: job_status(db, held) == "running")

    answer = posthouse("workers", "drain", "studio")
    assert (answer.code, answer.out.split()[-1]) == (0, "draining")
    waits = enqueue("quick")
    assert "drain requested by operator worker=studio" in worker.line()
    assert "draining" in posthouse("workers").out
    assert posthouse("workers", "drain", "studio").out.split()[-2:] == ["already", "draining"]
    assert worker.process.poll() is None

    gate.open()
    worker.process.communicate(timeout=WAIT_SECONDS)
    assert worker.process.returncode == 0
    assert status_counts(db) == {"succeeded": 1, "queued": 1}
    assert job_status(db, waits) == "queued"
    (gone,) = posthouse("workers", "--json").json
    assert (gone["status"], gone["lost"]) == ("offline", False)


def test_a_worker_that_drains_still_obeys_its_process_manager(posthouse, start_worker, enqueue, db):
    worker = start_worker(
        "--name", "studio", POSTHOUSE_DRAIN_SECONDS="0", POSTHOUSE_CANCEL_GRACE_SECONDS="0.1"
    )
    held = enqueue("hold")
    eventually_sync(lambda: job_status(db, held) == "running")
    posthouse("workers", "drain", "studio")
    assert "drain requested by operator" in worker.line()
    assert worker.stop(signal.SIGTERM) == 0
    assert job_status(db, held) == "queued"


def test_an_idle_worker_drains_at_once_and_cannot_be_drained_again(posthouse, start_worker):
    worker = start_worker("--name", "studio")
    assert posthouse("workers", "drain", "studio").code == 0
    worker.process.communicate(timeout=WAIT_SECONDS)
    assert worker.process.returncode == 0
    answer = posthouse("workers", "drain", "studio")
    assert answer.code == 1
    assert "offline" in answer.err


def test_a_worker_that_was_given_a_name_stays_disabled_when_it_is_started_again(posthouse, start_worker):
    worker = start_worker("--name", "studio")
    posthouse("workers", "disable", "studio")
    worker.stop()
    start_worker("--name", "studio")
    again, before = posthouse("workers", "--json").json
    assert (again["name"], again["status"]) == ("studio", "disabled")
    assert (before["name"], before["status"]) == ("studio", "offline")


def test_a_name_means_every_worker_that_has_it_and_an_id_means_one(posthouse, fleet):
    first, second = fleet.register("twin"), fleet.register("twin")
    by_name = posthouse("workers", "disable", "twin", "--json").json
    assert {item["id"] for item in by_name} == {str(first), str(second)}
    by_id = posthouse("workers", "enable", first, "--json").json
    assert by_id == [{"id": str(first), "name": "twin", "changed": True}]


def test_disabling_an_unknown_worker_is_an_error(posthouse):
    answer = posthouse("workers", "disable", "absent")
    assert (answer.code, answer.out) == (1, "")
    assert "worker 'absent' does not exist" in answer.err


METADATA, CAPABILITIES = "POSTHOUSE_WORKER_METADATA", "POSTHOUSE_CAPABILITIES"
WRONG = {
    "metadata that is no JSON": ({METADATA: "{pod"}, [], "not valid JSON"),
    "metadata that is no object": ({METADATA: "[1]"}, [], "JSON object"),
    "much metadata": ({METADATA: json.dumps({"a": "x" * 10_240})}, [], "at most 10,240 bytes"),
    "many capabilities": ({CAPABILITIES: ",".join(f"cap-{n}" for n in range(1500))}, [], "10,240 bytes"),
    "a capability of two words": ({}, ["--capability", "large disk"], "a capability must be a word"),
    "a name of two lines": ({}, ["--name", "one\ntwo"], "must be one line"),
}


def test_a_worker_with_invalid_metadata_or_capabilities_does_not_start(posthouse, db):
    app = posthouse.write_app()
    for mistake, (env, flags, hint) in WRONG.items():
        answer = posthouse("worker", "--app", app, *flags, **env)
        assert answer.code != 0, mistake
        assert hint in answer.err, mistake
        assert "Traceback" not in answer.err, mistake
    assert db.execute("select count(*) from posthouse.workers").fetchone() == (0,)
