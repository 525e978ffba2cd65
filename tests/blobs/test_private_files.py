"""Artifacts and the data folder are closed to other users, even if their folders existed before."""

import stat
from uuid import uuid4

import pytest

from posthouse.blobs import new_blob_key, open_store, store_copy
from posthouse.blobs.store import private_folder
from posthouse.server.artifacts import UploadRange, Uploads
from posthouse.settings import Settings
from posthouse.storage.embedded.layout import open_layout


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=tmp_path / "data")


@pytest.mark.parametrize("existed", [False, True])
async def test_artifacts_are_private(settings, tmp_path, existed):
    artifacts = settings.data_dir / "artifacts"
    if existed:
        artifacts.mkdir(parents=True)
        artifacts.chmod(0o755)
    source = tmp_path / "film.mp4"
    source.write_bytes(b"film")
    source.chmod(0o644)
    await store_copy(settings, open_store(settings), blob_key := new_blob_key(uuid4()), source)
    file = artifacts / blob_key
    assert (mode(artifacts), mode(file.parent), mode(file)) == (0o700, 0o700, 0o600)
    assert (mode(settings.data_dir / "uploads"), mode(source)) == (0o700, 0o644)


async def test_unfinished_uploads_are_private(settings):
    uploads = settings.data_dir / "uploads"
    uploads.mkdir(parents=True)
    uploads.chmod(0o755)

    async def half():
        yield b"half"

    await Uploads(open_store(settings), settings).take(
        uuid4(), "film", "0" * 64, UploadRange(0, 4, 8), half()
    )
    [file] = uploads.iterdir()
    assert (mode(uploads), mode(file)) == (0o700, 0o600)


def test_a_data_folder_that_existed_is_closed(tmp_path):
    for name in ("new", "empty", "used"):
        folder = tmp_path / name
        if name != "new":
            folder.mkdir()
            folder.chmod(0o755)
        if name == "used":
            open_layout(folder)
            folder.chmod(0o777)
            (folder / "cluster").mkdir()
        open_layout(folder)
        assert not mode(folder) & 0o066, name


def test_a_folder_with_other_content_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "other").touch()
    open_layout(tmp_path)
    assert mode(tmp_path) == 0o755
    tmp_path.chmod(0o1777)
    private_folder(tmp_path)
    assert mode(tmp_path) == 0o777 | stat.S_ISVTX
