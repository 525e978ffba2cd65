"""A supervisor without a database: jobs of a stuck child are settled through the server."""

import os
from pathlib import Path

import pytest

from support import forkserver
from support.remote import RemoteServer
from support.waiting import eventually
from support.workers import attempt_outcomes, job_row, job_status

FOLDER = Path(__file__).parents[2] / "supervisor"


@pytest.mark.soak
async def test_a_stuck_child_of_a_remote_worker_is_replaced_and_only_the_blocker_counts_a_crash(
    database, tmp_path
):
    async with RemoteServer.over(database, tmp_path) as remote_server:
        known = {"remote_url": remote_server.url, "remote_key": await remote_server.key(), "lease_seconds": 4}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        given = {f"POSTHOUSE_{name.upper()}": str(value) for name, value in known.items()}
        words = ["-m", "posthouse", "worker", "--app", "blocking_jobs:app"]
        env = {**kept, **given, "POSTHOUSE_HEARTBEAT_SECONDS": "0.5"}
        worker = forkserver.start_python(words, folder=FOLDER, env=env)
        try:
            go = tmp_path / "go"
            neighbour = (await remote_server.enqueuer.enqueue("wait_for", {"path": str(go)})).id
            await eventually(lambda: job_status(remote_server.db, neighbour) == "running")
            blocker = (await remote_server.enqueuer.enqueue("hold_lock", {})).id
            await eventually(lambda: job_status(remote_server.db, blocker) == "succeeded")
            go.touch()
            await eventually(lambda: job_status(remote_server.db, neighbour) == "succeeded")
            assert attempt_outcomes(remote_server.db, blocker) == [(1, "crashed"), (2, "succeeded")]
            assert attempt_outcomes(remote_server.db, neighbour) == [(1, "released"), (1, "succeeded")]
            assert job_row(remote_server.db, neighbour)["crashes"] == 0
        finally:
            worker.terminate()
            worker.wait(60)
