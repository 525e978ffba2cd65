"""A supervisor without a database: jobs of a stuck child are settled through the server."""

import os
from pathlib import Path

import pytest
from remotekit import Site

import stable
from workshop import attempts, eventually, row, status

FOLDER = Path(__file__).parents[1] / "supervisor"


@pytest.mark.soak
async def test_a_stuck_child_of_a_remote_worker_is_replaced_and_only_the_blocker_counts_a_crash(
    database, tmp_path
):
    async with Site.over(database, tmp_path) as site:
        known = {"remote_url": site.url, "remote_key": await site.key(), "lease_seconds": 4}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        given = {f"POSTHOUSE_{name.upper()}": str(value) for name, value in known.items()}
        words = ["-m", "posthouse", "worker", "--app", "blocking_jobs:app"]
        env = {**kept, **given, "POSTHOUSE_HEARTBEAT_SECONDS": "0.5"}
        worker = stable.start(words, folder=FOLDER, env=env)
        try:
            go = tmp_path / "go"
            neighbour = (await site.client.enqueue("wait_for", {"path": str(go)})).id
            await eventually(lambda: status(site.db, neighbour) == "running")
            blocker = (await site.client.enqueue("hold_lock", {})).id
            await eventually(lambda: status(site.db, blocker) == "succeeded")
            go.touch()
            await eventually(lambda: status(site.db, neighbour) == "succeeded")
            assert attempts(site.db, blocker) == [(1, "crashed"), (2, "succeeded")]
            assert attempts(site.db, neighbour) == [(1, "released"), (1, "succeeded")]
            assert row(site.db, neighbour)["crashes"] == 0
        finally:
            worker.terminate()
            worker.wait(60)
