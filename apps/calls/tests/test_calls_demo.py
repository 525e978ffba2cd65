"""The demo, as users run it."""

import json
import os
import subprocess
import sys


def test_the_demo_hears_what_was_said(database, tmp_path):
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("POSTHOUSE_", "CALLS_"))
    }
    env = {
        "POSTHOUSE_DATABASE_URL": database,
        "POSTHOUSE_PROCESSES": "1",
        "CALLS_STORAGE_URL": (tmp_path / "storage").as_uri(),
    }
    done = subprocess.run(
        [sys.executable, "-m", "posthouse", "demo", "calls", "--size", "1", "--json"],
        env=kept | env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["word error rate"] <= 0.2
    assert "parcel" in found["keywords"]
    assert "calls.recognise: 1 of 1" in done.stderr
