"""The demo, as users run it."""

import json
import os

import pytest

from support import forkserver


@pytest.mark.soak
def test_the_demo_reads_what_was_written(database, tmp_path):
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("POSTHOUSE_", "VISION_"))
    }
    env = {
        "POSTHOUSE_DATABASE_URL": database,
        "POSTHOUSE_PROCESS_SLOTS": "1",
        "VISION_STORAGE_URL": (tmp_path / "storage").as_uri(),
    }
    done = forkserver.run_posthouse(
        ["demo", "vision", "--size", "2", "--json"], folder=tmp_path, env=kept | env, seconds=100
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["recall"] >= 0.9
    assert found["precision"] >= 0.9
    assert found["searches"][:2] == ["welcome at 0.0-2.0 s", "@mail_rider at 0.0-2.0 s"]
    assert (tmp_path / "storage" / found["clip"]).stat().st_size > 1000
    assert "vision.ocr: 1 of 1" in done.stderr
