"""One contract for the files of applications in folders and in S3."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from fixtures.s3 import S3_KEYS
from posthouse.blobs import NotStored, Storage, open_storage
from posthouse.errors import ConfigurationError

DAY = timedelta(days=1)


@pytest.fixture
def bucket(s3_url, bucket_name):
    return Storage(f"s3://{bucket_name}/some/where", endpoint=s3_url, **S3_KEYS)


@pytest.fixture
def folder(tmp_path):
    return Storage((tmp_path / "a storage").as_uri())


@pytest.fixture(params=["folder", "bucket"])
def files(request):
    return request.getfixturevalue(request.param)


def paths(files, prefix):
    return sorted(item.path for item in files.found(prefix))


async def sent(*pieces):
    for piece in pieces:
        yield piece


def test_a_stored_file_can_be_read_and_removed(files, tmp_path):
    files.put("frames/a/1.jpg", b"one")
    (tmp_path / "two").write_bytes(b"two" * 1_000_000)
    files.put("frames/a/2.jpg", tmp_path / "two")
    assert files.read("frames/a/1.jpg") == b"one"
    assert files.size("frames/a/2.jpg") == 3_000_000
    assert sum(len(chunk) for chunk in files.chunks("frames/a/2.jpg")) == 3_000_000
    assert paths(files, "frames") == ["frames/a/1.jpg", "frames/a/2.jpg"]
    files.remove(["frames/a/1.jpg", "frames/a/none.jpg"])
    assert not files.exists("frames/a/1.jpg")
    assert paths(files, "nothing") == []


async def test_a_part_of_a_file_can_be_read(files):
    files.put("a/digits", b"0123456789")
    assert files.read_range("a/digits", 2, 5) == b"234"
    assert files.read_range("a/digits", 5, 5) == b""
    for arguments, expected in (((), b"0123456789"), ((7,), b"789"), ((2, 5), b"234"), ((0, 4), b"0123")):
        assert b"".join([piece async for piece in await files.stream("a/digits", *arguments)]) == expected


@pytest.mark.parametrize("path", ["a/missing", "../outside", "/etc/hostname", "a/../../outside", ""])
async def test_missing_files_and_paths_out_of_the_storage_are_reported(files, path, tmp_path):
    (tmp_path / "outside").write_text("not yours")
    for read in files.read, files.size, files.about, lambda path: files.read_range(path, 0, 1):
        with pytest.raises(NotStored):
            read(path)
    with pytest.raises(NotStored):
        await files.stream(path)
    with pytest.raises(NotStored, match="frame not found"), files.opened(path, "frame"):
        pass
    assert not files.exists(path)


def test_a_stored_file_can_be_opened_as_a_file(files):
    files.put("videos/x.mp4", b"content")
    with files.opened("videos/x.mp4") as file:
        assert (file.read_bytes(), file.suffix) == (b"content", ".mp4")


async def test_a_stream_is_stored_as_a_whole_or_not_at_all(files):
    async def interrupted():
        yield b"begun"
        raise ConnectionError

    assert await files.receive("a/whole", sent(b"be", b"gun", b" and ended")) == 15
    with pytest.raises(Exception):  # noqa: B017 - obstore's own
        await files.receive("a/half", interrupted())
    assert paths(files, "a") == ["a/whole"]


def test_a_folder_replaces_the_files_below_a_path(files, tmp_path):
    files.put("proxy/a/segment_9.ts", b"of an earlier run")
    files.put("proxy/ab/index.m3u8", b"of another")
    (tmp_path / "out").mkdir()
    for name in ("index.m3u8", "segment_0.ts"):
        (tmp_path / "out" / name).write_text(name)
    files.put_folder("proxy/a", tmp_path / "out", last="index.m3u8")
    assert paths(files, "proxy") == ["proxy/a/index.m3u8", "proxy/a/segment_0.ts", "proxy/ab/index.m3u8"]


def test_removing_a_prefix_leaves_its_neighbours(files):
    for path in ("videos/1/a", "videos/1/b/c", "videos/11/a", "videos/2"):
        files.put(path, b"content")
    files.remove_prefix("videos/1")
    files.remove_prefix("videos/none")
    assert paths(files, "videos") == ["videos/11/a", "videos/2"]
    for prefix in ("", "..", "videos/../.."):
        with pytest.raises(ValueError, match="prefix"):
            files.remove_prefix(prefix)


def test_old_files_are_removed(files):
    files.put("clips/1.mp4", b"clip")
    now = datetime.now(UTC)
    assert files.remove_older("clips", DAY, now) == []
    assert files.remove_older("clips", DAY, now + 2 * DAY) == ["clips/1.mp4"]
    assert not files.exists("clips/1.mp4")


def test_what_an_interrupted_write_left_is_removed_when_it_is_old(folder):
    folder.put("a/whole", b"content")
    left = folder.folder / "a" / "half#1"
    left.write_bytes(b"half")
    now = datetime.now(UTC)
    assert folder.remove_unfinished(DAY, now) == 0
    os.utime(left, (0, 0))
    assert folder.remove_unfinished(DAY, now) == 1
    assert [file.name for file in (folder.folder / "a").iterdir()] == ["whole"]


def test_removed_files_leave_no_empty_folders(folder):
    folder.put("a/b/c/file", b"content")
    folder.remove(["a/b/c/file"])
    assert list(folder.folder.iterdir()) == []


def test_other_users_of_the_machine_cannot_read_the_folder(folder):
    assert folder.folder.stat().st_mode & 0o077 == 0


def test_a_bucket_gives_out_links_and_a_folder_does_not(bucket, folder):
    httpx.put(bucket.upload_url("a/file", DAY), content=b"uploaded").raise_for_status()
    assert httpx.get(bucket.link("a/file", DAY)).content == b"uploaded"
    assert (folder.upload_url("a/file", DAY), folder.link("a/file", DAY)) == (None, None)


def test_the_storage_of_an_application_is_the_configured_one(tmp_path, monkeypatch):
    monkeypatch.setenv("VISION_STORAGE_URL", (tmp_path / "videos").as_uri())
    assert open_storage("vision").folder == tmp_path / "videos"


@pytest.mark.parametrize("url", ["nonsense://somewhere", "s3://", "folder"])
def test_an_invalid_url_is_rejected(url):
    with pytest.raises(ConfigurationError, match="file:///folder or s3://bucket"):
        Storage(url)
