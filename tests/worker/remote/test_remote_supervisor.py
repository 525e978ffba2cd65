"""A supervisor without a database: jobs of a stuck child are settled through the server."""

import os
from pathlib import Path

import pytest

from support import forkserver
from support.remote import RemoteSite
from support.waiting import eventually
from support.workers import attempt_outcomes, job_row, job_status

FOLDER = Path(__file__).parents[2] / "supervisor"


@pytest.mark.soak
async def test_a_stuck_child_of_a_remote_worker_is_replaced_and_only_the_blocker_counts_a_crash(
    database, tmp_path
):
    async with RemoteSite.over(database, tmp_path) as site:
        known = {"remote_url": site.url, "remote_key": await site.key(), "lease_seconds": 4}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        given = {f"POSTHOUSE_{name.upper()}": str(value) for name, value in known.items()}
        words = ["-m", "posthouse", "worker", "--app", "blocking_jobs:app"]
        env = {**kept, **given, "POSTHOUSE_HEARTBEAT_SECONDS": "0.5"}
        worker = forkserver.start_python(words, folder=FOLDER, env=env)
        try:
            go = tmp_path / "go"
            neighbour = (await site.enqueuer.enqueue("wait_for", {"path": str(go)})).id
            await eventually(lambda: job_status(site.db, neighbour) == "running")
            blocker = (await site.enqueuer.enqueue("hold_lock", {})).id
            await eventually(lambda: job_status(site.db, blocker) == "succeeded")
            go.touch()
            await eventually(lambda: job_status(site.db, neighbour) == "succeeded")
            assert attempt_outcomes(site.db, blocker) == [(1, "crashed"), (2, "succeeded")]
            assert attempt_outcomes(site.db, neighbour) == [(1, "released"), (1, "succeeded")]
            assert job_row(site.db, neighbour)["crashes"] == 0
        finally:
            worker.terminate()
            worker.wait(60)
