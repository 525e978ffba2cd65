"""posthouse init: an example that runs as it is written."""

import os
import subprocess
import sys

FILES = ["jobs.py", "posthouse.toml", "test_jobs.py"]


def test_the_example_runs_and_its_test_passes(posthouse):
    made = posthouse("init", "shop")
    assert made.code == 0, made.err
    folder = posthouse.folder / "shop"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert "cd shop" in made.out
    posthouse.folder = folder

    worker = posthouse.start("worker")
    assert "welcome" in worker.line()
    done = posthouse("enqueue", "welcome", "--payload", '{"name": "Ada"}', "--wait")
    assert done.code == 0, done.err
    assert "Welcome, Ada!" in done.out
    assert [job["kind"] for job in posthouse("jobs", "list", "--json").json] == ["remind", "welcome"]
    assert worker.stop() == 0

    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder, env={**posthouse.env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout


def test_files_that_exist_are_not_overwritten_unless_forced(offline):
    (offline.folder / "jobs.py").write_text("mine")
    (offline.folder / "posthouse.toml").write_text("")
    refused = offline("init")
    assert (refused.code, refused.out) == (2, "")
    assert "jobs.py and posthouse.toml already exist" in refused.err
    assert "--force" in refused.err
    assert (offline.folder / "jobs.py").read_text() == "mine"
    assert not (offline.folder / "test_jobs.py").exists()

    assert offline("init", "--force").code == 0
    assert "posthouse.App()" in (offline.folder / "jobs.py").read_text()


def test_a_folder_that_cannot_be_written_is_named(offline):
    (offline.folder / "file").write_text("")
    refused = offline("init", os.path.join("file", "shop"))  # noqa: PTH118 - as typed
    assert refused.code == 1
    assert f"cannot write to {offline.folder / 'file' / 'shop'}" in refused.err
