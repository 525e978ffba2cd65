"""`posthouse worker`: children that are stuck, crash, wear out or are told to stop."""

import json
import os
import signal
import socket

import httpx
import psutil
import pytest

from support import forkserver
from support.waiting import eventually_sync
from support.workers import attempt_outcomes, job_row, job_status


def enqueue(db, kind, payload="{}"):
    jobs = json.dumps([{"kind": kind, "payload": json.loads(payload), "queue": "default"}])
    return db.execute("select id from posthouse.enqueue_many(%s::jsonb)", (jobs,)).fetchone()[0]


@pytest.mark.parametrize(
    "kinds",
    [["hold_lock", "stay_in_c"], pytest.param(["hold_lock_in_thread"], marks=pytest.mark.soak)],
    ids="-".join,
)
def test_a_job_that_blocks_its_process_counts_a_crash_and_its_neighbours_spend_nothing(
    supervise, db, tmp_path, kinds
):
    worker = supervise("--processes", "2")
    worker.until_workers(2)
    go = tmp_path / "go"
    payload = f'{{"path": "{go}"}}'
    neighbours = [enqueue(db, "wait_for", payload) for _ in range(6)]
    for kind in kinds:
        eventually_sync(lambda: all(job_status(db, job) == "running" for job in neighbours))
        before = worker.until_workers(2)
        blocker = enqueue(db, kind)
        eventually_sync(lambda job=blocker: job_status(db, job) == "succeeded", what="the second attempt")
        after = worker.until_workers(2)
        assert len(set(after.values()) & set(before.values())) == 1, "one child was replaced"
        assert attempt_outcomes(db, blocker) == [(1, "crashed"), (2, "succeeded")]
        assert job_row(db, blocker)["crashes"] == 1
        message, traceback = db.execute(
            "select error_message, traceback from posthouse.attempts where job_id = %s and attempt = 1",
            (blocker,),
        ).fetchone()
        assert "blocked" in message
        assert f"in {kind}" in traceback
    go.touch()
    eventually_sync(lambda: all(job_status(db, job) == "succeeded" for job in neighbours))
    for job in neighbours:
        assert (job_row(db, job)["attempt_count"], job_row(db, job)["crashes"]) == (1, 0)
        assert {outcome for _, outcome in attempt_outcomes(db, job)} <= {"released", "succeeded"}


def test_a_child_is_replaced_when_it_is_killed_and_after_max_jobs_between_jobs(supervise, db):
    worker = supervise("--max-jobs", "3", "--concurrency", "1")
    [killed] = worker.until_workers(1).values()
    os.kill(killed, signal.SIGKILL)
    eventually_sync(lambda: worker.workers() and killed not in worker.workers().values())
    [worn] = worker.until_workers(1).values()
    jobs = [enqueue(db, "where") for _ in range(3)]
    eventually_sync(lambda: worn not in worker.workers().values() and worker.workers())
    assert {job_row(db, job)["result"] for job in jobs} == {worn}
    jobs.append(enqueue(db, "where"))
    eventually_sync(lambda: job_status(db, jobs[-1]) == "succeeded")
    assert all(attempt_outcomes(db, job) == [(1, "succeeded")] for job in jobs)
    assert job_row(db, jobs[-1])["result"] not in {killed, worn}
    assert worker.stop() == 0


def test_a_child_is_replaced_when_it_uses_too_much_memory(supervise):
    worker = supervise("--max-rss", "1")
    first = worker.until_workers(1)
    eventually_sync(lambda: worker.workers() and not worker.workers().keys() & first.keys())


STUBBORN = ["never_stop", "ignore_cancellation", "never_stop_in_process", "stubborn_command"]


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(STUBBORN, id="all runners"),
        pytest.param(["block_loop"], id="blocked loop", marks=pytest.mark.soak),
    ],
)
def test_sigterm_ends_a_worker_whose_handlers_never_return(supervise, db, kinds):
    argv = ["sh", "-c", "trap '' TERM; setsid sleep 3600 & while true; do sleep 1; done"]
    db.execute(
        "select posthouse.create_definition('stubborn_command', %s)",
        (json.dumps({"command": {"argv": argv}}),),
    )
    worker = supervise("--commands")
    worker.until_workers(1)
    jobs = [enqueue(db, kind) for kind in kinds]
    eventually_sync(lambda: all(job_status(db, job) == "running" for job in jobs))
    family = worker.family()
    assert worker.stop() == 0
    assert not [process for process in family if psutil.pid_exists(process.pid)]
    assert {job: (job_status(db, job), attempt_outcomes(db, job)) for job in jobs} == dict.fromkeys(
        jobs, ("queued", [(1, "released")])
    )


def test_children_have_names_of_their_own_and_drain_at_sigterm(supervise, db, tmp_path):
    worker = supervise("--processes", "2", "--name", "press", drain_seconds=30)
    assert worker.until_workers(2).keys() == {"press/1", "press/2"}
    go = tmp_path / "go"
    jobs = [enqueue(db, "wait_for", f'{{"path": "{go}"}}') for _ in range(4)]
    eventually_sync(lambda: all(job_status(db, job) == "running" for job in jobs))
    worker.process.terminate()
    eventually_sync(lambda: "stop requested" in worker.log(), what="the drain")
    go.touch()
    assert worker.process.wait(60) == 0
    assert all(attempt_outcomes(db, job) == [(1, "succeeded")] for job in jobs)
    assert worker.workers() == {}


def test_an_operator_drains_the_only_child_and_the_supervisor_ends(supervise, db):
    worker = supervise()
    worker.until_workers(1)
    db.execute("update posthouse.workers set drain_requested_at = posthouse.now()")
    assert worker.process.wait(60) == 0


def test_the_liveness_probe_sees_a_blocked_child_and_nothing_outlives_a_killed_supervisor(supervise, db):
    worker = supervise("--metrics-port", str(port := free_port()), heartbeat_seconds=0.2)
    worker.until_workers(1)
    eventually_sync(lambda: probe(port) == (200, "ok\n"))
    job = enqueue(db, "block_loop")
    eventually_sync(lambda: job_status(db, job) == "running")
    eventually_sync(lambda: (response := probe(port))[0] == 503 and "the event loop of worker" in response[1])
    family = worker.family()
    worker.process.kill()
    worker.process.wait()
    eventually_sync(lambda: not any(process.is_running() for process in family))


def test_a_keeper_answers_the_liveness_probe(database):
    env = {**os.environ, "POSTHOUSE_DATABASE_URL": database}
    words = ["-m", "posthouse", "keeper", "--metrics-port", str(port := free_port())]
    with forkserver.start_python(words, env=env) as keeper:
        eventually_sync(lambda: probe(port) == (200, "ok\n"))
        keeper.terminate()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def probe(port):
    """Return the status and text of /livez; None and the reason if nothing listens."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/livez")
    except httpx.TransportError as error:
        return None, str(error)
    return answer.status_code, answer.text
