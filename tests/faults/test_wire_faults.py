"""The wire between a worker and Postgres: cut, hanging, or losing replies."""

import asyncio
import time

import posthouse
from support.waiting import eventually
from support.workers import attempt_outcomes, job_row, job_status, status_counts


def _crashes(db):
    return db.execute("select coalesce(sum(crashes), 0) from posthouse.jobs").fetchone()[0]


def _hold(client, files):
    payload = {"started": files.started, "until": files.until, "ended": files.ended}
    return client.enqueue("watched_hold", payload)


async def test_a_claim_whose_reply_is_lost_still_runs_and_only_once(
    worker_processes, proxy, client, db, files
):
    """The worker asks again with the same token, and hears what it had been given."""
    worker = worker_processes.start(url=proxy.url, lease_seconds=60, heartbeat_seconds=5, keeper=False)
    assert client.wait(client.enqueue("quick", {"number": 1}).id, "20s") == 1
    proxy.drop_next_reply_containing(b"lost-claim")
    handle = client.enqueue("hold", {"started": files.started, "until": files.until}, subject="lost-claim")
    files.go_on()
    assert client.wait(handle.id, "30s") == "released"
    await eventually(lambda: proxy.swallowed == 1)
    assert files.starts() == [worker.pid]
    assert attempt_outcomes(db, handle.id) == [(1, "succeeded")]


async def test_a_completion_whose_reply_is_lost_completes_once(worker_processes, proxy, client, db):
    worker_processes.start(url=proxy.url, lease_seconds=60, heartbeat_seconds=5, keeper=False)
    assert client.wait(client.enqueue("quick", {"number": 1}).id, "20s") == 1
    proxy.drop_reply_to(b"424242")
    handle = client.enqueue("quick", {"number": 424242})
    assert client.wait(handle.id, "30s") == 424242
    await eventually(lambda: proxy.swallowed == 1)
    assert client.wait(client.enqueue("quick", {"number": 2}).id, "20s") == 2
    assert attempt_outcomes(db, handle.id) == [(1, "succeeded")]


async def test_a_commit_whose_reply_is_lost_has_its_effect_once(worker_processes, proxy, client, db, effects):
    """The handler fails, for all it knows; the report of that failure finds the job completed."""
    worker_processes.start(url=proxy.url, lease_seconds=60, heartbeat_seconds=5)
    assert client.wait(client.enqueue("quick", {"number": 1}).id, "20s") == 1
    proxy.drop_reply_to(b"COMMIT")
    handle = client.enqueue("pay", {})
    client.wait(handle.id, "30s")
    await eventually(lambda: proxy.swallowed == 1)
    assert client.wait(client.enqueue("quick", {"number": 2}).id, "20s") == 2
    assert attempt_outcomes(db, handle.id) == [(1, "succeeded")]
    assert effects() == {handle.id: 1}


async def test_a_failure_whose_reply_is_lost_counts_once(worker_processes, proxy, client, db):
    worker_processes.start(url=proxy.url, lease_seconds=60, heartbeat_seconds=5)
    assert client.wait(client.enqueue("quick", {"number": 1}).id, "20s") == 1
    proxy.drop_reply_to(b"at first it does not work")
    handle = client.enqueue("errand", {"fate": "retry", "seconds": 0})
    assert client.wait(handle.id, "30s") == "retry"
    await eventually(lambda: proxy.swallowed == 1)
    assert attempt_outcomes(db, handle.id) == [(1, "failed"), (2, "succeeded")]


async def test_follow_ups_of_a_completion_whose_reply_is_lost_are_stored_once(
    worker_processes, proxy, client, db
):
    worker_processes.start(url=proxy.url, lease_seconds=60, heartbeat_seconds=5)
    assert client.wait(client.enqueue("quick", {"number": 1}).id, "20s") == 1
    proxy.drop_reply_to(b"posthouse.succeed_with")
    handle = client.enqueue("errand", {"fate": "follow", "seconds": 0})
    assert client.wait(handle.id, "30s") == "follow"
    await eventually(lambda: proxy.swallowed == 1)
    await eventually(lambda: status_counts(db) == {"succeeded": 3})
    children = db.execute("select count(*) from posthouse.jobs where parent_id = %s", (handle.id,))
    assert children.fetchone() == (1,)


async def test_a_worker_whose_connections_are_cut_all_the_time_gets_everything_done_once(
    worker_processes, proxy, client, db, effects
):
    worker_processes.start(2, url=proxy.url, concurrency=10, lease_seconds=20)
    handles = client.enqueue_many(
        posthouse.Request(kind="pay", payload={"seconds": 0.02}, max_attempts=50) for _ in range(100)
    )
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and status_counts(db) != {"succeeded": 100}:
        proxy.disconnect_all()
        await asyncio.sleep(0.15)
    await eventually(lambda: status_counts(db) == {"succeeded": 100})
    # Not that none was declared dead: with this many cuts, a slow machine may be silent for a second.
    assert effects() == {handle.id: 1 for handle in handles}


async def test_a_worker_cut_off_stops_its_work_before_the_lease_is_given_away(
    worker_processes, proxy, client, db, files
):
    """Nothing goes through and no error is raised, as in a network that drops packets."""
    cut_off = worker_processes.start(url=proxy.url, keeper=False, lease_seconds=10)
    handle = _hold(client, files)
    await eventually(files.starts)
    proxy.pause()
    await eventually(lambda: files.endings() == 1)
    # Without a keeper the row is still there, whenever this looks.
    (expires_at,) = db.execute("select lease_expires_at from posthouse.running").fetchone()
    assert files.ended_at() < expires_at.timestamp()
    other = worker_processes.start()
    await eventually(lambda: files.starts() == [cut_off.pid, other.pid])
    proxy.resume()
    files.go_on()
    assert client.wait(handle.id, "20s") == "released"
    assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "succeeded")]


async def test_a_worker_cut_off_and_let_in_again_goes_on_working(worker_processes, proxy, client, db, files):
    worker = worker_processes.start(url=proxy.url, lease_seconds=3)
    assert client.wait(client.enqueue("quick", {"number": 1}).id, "20s") == 1
    proxy.refuse_connections()
    waiting = client.enqueue("quick", {"number": 2})
    before = proxy.accepted
    await eventually(lambda: proxy.accepted > before + 5)  # it tries again and again
    assert job_status(db, waiting.id) == "queued"
    proxy.accept_connections()
    assert client.wait(waiting.id, "20s") == 2
    assert worker.alive
    worker.terminate()
    assert worker.wait() == 0
    assert job_row(db, waiting.id)["crashes"] == 0


async def test_a_blip_shorter_than_the_lease_costs_no_job(worker_processes, proxy, client, db, files):
    worker_processes.start(url=proxy.url, lease_seconds=20, heartbeat_seconds=1)
    worker_processes.start(lease_seconds=20, heartbeat_seconds=1)
    handles = [_hold(client, files) for _ in range(6)]
    await eventually(lambda: len(files.starts()) == 6)
    proxy.pause()
    before = {time for (time,) in db.execute("select heartbeat_at from posthouse.workers").fetchall()}
    await eventually(
        lambda: (
            not before
            & {time for (time,) in db.execute("select max(heartbeat_at) from posthouse.workers").fetchall()}
        )
    )
    proxy.resume()
    files.go_on()
    await eventually(lambda: status_counts(db) == {"succeeded": 6})
    assert files.endings() == 0
    assert _crashes(db) == 0
    assert {tuple(attempt_outcomes(db, handle.id)) for handle in handles} == {((1, "succeeded"),)}


async def test_a_worker_that_cannot_come_back_stops_its_work_before_the_job_is_given_away(
    worker_processes, proxy, client, db, files
):
    """Its connections are closed and new ones refused: by a firewall, a full connection limit, a proxy."""
    cut_off = worker_processes.start(url=proxy.url, keeper=False, lease_seconds=60, heartbeat_seconds=1)
    handle = _hold(client, files)
    await eventually(files.starts)
    proxy.refuse_connections()
    # Not because the job was rescued: no keeper runs yet.
    await eventually(lambda: files.endings() == 1)
    assert job_status(db, handle.id) == "running"
    other = worker_processes.start(lease_seconds=60, heartbeat_seconds=1)
    await eventually(lambda: files.starts() == [cut_off.pid, other.pid])
