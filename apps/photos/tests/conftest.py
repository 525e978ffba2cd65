import json
import os
import uuid

import pytest

from photos.cli import run
from photos.sample_pictures import SCENES, render_scene


@pytest.fixture
def app_path():
    return "photos:app"


@pytest.fixture(scope="session")
def token():
    return f"tok{uuid.uuid4().hex}"


@pytest.fixture
def photos_root(tmp_path, monkeypatch, token):
    """Where the library is, for commands in this process and for those of workers."""
    monkeypatch.setenv("PHOTOS_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("PHOTOS_TOKEN", token)
    monkeypatch.setenv("POSTHOUSE_SECRET_PHOTOS_TOKEN", token)
    return tmp_path / "library"


@pytest.fixture
def photos(photos_root, capsys):
    """Runs the command line: its exit code, what it did, and what it complained of."""

    def photos(*arguments, tenant="harbour"):
        command, *rest = arguments
        code = run([command, "--tenant-id", tenant, *rest])
        output = capsys.readouterr()
        lines = output.out.splitlines()
        return code, json.loads(lines[-1]) if lines and not code else None, output.err

    return photos


@pytest.fixture
def camera(tmp_path):
    """A folder with some pictures of each scene."""

    def camera(name="camera", each=4):
        folder = tmp_path / name
        folder.mkdir()
        for scene in SCENES:
            for number in range(each):
                render_scene(scene, folder / scene / f"{number}.jpg", number)
        return folder

    return camera


@pytest.fixture
def worker_env(photos_root, token):
    """What workers need. They do not watch the folders, so that tests know all jobs."""
    return {
        "PHOTOS_LIBRARY": str(photos_root),
        "PHOTOS_WATCH": "off",
        "POSTHOUSE_SECRET_PHOTOS_TOKEN": token,
        "PATH": os.defpath,
    }
