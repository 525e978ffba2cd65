"""The demo, as users run it."""

import json
import os

import pytest

from support import forkserver


@pytest.mark.soak
def test_the_demo_transcribes_the_call(database, tmp_path):
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("POSTHOUSE_", "CALLS_"))
    }
    env = {
        "POSTHOUSE_DATABASE_URL": database,
        "POSTHOUSE_PROCESS_SLOTS": "1",
        "CALLS_STORAGE_URL": (tmp_path / "storage").as_uri(),
    }
    done = forkserver.run_posthouse(
        ["demo", "calls", "--size", "1", "--json"], folder=tmp_path, env=kept | env, seconds=100
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["word error rate"] <= 0.2
    assert "parcel" in found["keywords"]
    assert "calls.recognize: 1 of 1" in done.stderr
