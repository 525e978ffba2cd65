"""posthouse queues: paused, resumed and drained while workers run."""

from support.waiting import WAIT_SECONDS, eventually_sync
from support.workers import status_counts


def running(db, queue="default"):
    return db.execute("select count(*) from posthouse.running where queue = %s", (queue,)).fetchone()[0]


def test_a_paused_queue_starts_nothing_and_a_resumed_one_goes_on(posthouse, start_worker, enqueue, db):
    assert posthouse("queues", "pause", "slow").code == 0
    start_worker("--queue", "slow", "--queue", "default")
    held = enqueue("quick", queue="slow")
    enqueue("quick")
    eventually_sync(lambda: status_counts(db) == {"queued": 1, "succeeded": 1})

    queues = {queue["name"]: queue for queue in posthouse("queues", "--json").json}
    assert queues["slow"]["paused_by"].startswith("cli:")
    assert queues["default"]["paused_at"] is None
    assert posthouse("jobs", "why", held, "--json").json["reason"] == "paused"

    assert posthouse("queues", "resume", "slow").out.split() == ["slow", "resumed"]
    eventually_sync(lambda: status_counts(db) == {"succeeded": 2})
    actions = db.execute("select action, target from posthouse.audit order by id").fetchall()
    assert actions == [("queue.pause", "slow"), ("queue.resume", "slow")]


def test_pausing_twice_and_resuming_what_runs_say_so(posthouse):
    assert posthouse("queues", "pause", "mail", "--json").json == [{"name": "mail", "changed": True}]
    again = posthouse("queues", "pause", "mail")
    assert (again.code, again.out.strip()) == (0, "mail  already paused")
    assert "queue 'mail' is not used by any job, worker or definition" in again.err
    assert posthouse("queues", "resume", "mail", "other", "--json").json == [
        {"name": "mail", "changed": True},
        {"name": "other", "changed": False},
    ]


def test_a_drain_waits_for_what_runs_and_leaves_the_rest(posthouse, start_worker, enqueue, db, gate):
    start_worker("--concurrency", "2")
    for _ in range(4):
        enqueue("hold")
    eventually_sync(lambda: running(db) == 2)
    drain = posthouse.start("queues", "drain", "default", "--json")
    eventually_sync(lambda: "2 running" in drain.err)
    assert drain.process.poll() is None
    gate.open()
    out, _ = drain.process.communicate(timeout=WAIT_SECONDS)
    assert drain.process.returncode == 0
    assert '"drained": true' in out
    assert status_counts(db) == {"succeeded": 2, "queued": 2}


def test_a_drain_that_takes_too_long_says_what_still_runs_and_stays_paused(
    posthouse, start_worker, enqueue, db
):
    start_worker("--concurrency", "2")
    enqueue("hold")
    eventually_sync(lambda: running(db) == 1)
    answer = posthouse("queues", "drain", "default", "--timeout", "50ms")
    assert answer.code == 1
    assert "1 running" in answer.err.splitlines()[-1]
    assert db.execute("select paused_at is not null from posthouse.queues").fetchall() == [(True,)]


def test_until_empty_lets_everything_run_that_is_queued(posthouse, start_worker, enqueue, db):
    first = enqueue("quick")
    enqueue("quick", depends_on=[first])
    enqueue("quick", delay="300 milliseconds")
    start_worker()
    answer = posthouse("queues", "drain", "default", "--until-empty")
    assert (answer.code, answer.out.strip()) == (0, "default  empty")
    assert status_counts(db) == {"succeeded": 3}
    assert db.execute("select count(*) from posthouse.queues where paused_at is not null").fetchone() == (0,)


def test_until_empty_does_not_wait_for_a_paused_queue(posthouse, enqueue):
    enqueue("quick")
    posthouse("queues", "pause", "default")
    answer = posthouse("queues", "drain", "default", "--until-empty")
    assert answer.code == 2
    assert "posthouse queues resume default" in answer.err
