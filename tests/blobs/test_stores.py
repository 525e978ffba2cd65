"""Where the bytes of artifacts are kept: one suite over a folder and over a bucket of a real S3 server."""

from __future__ import annotations

import os

import httpx
import pytest

from posthouse.blobs import open_store
from posthouse.errors import ArtifactNotFound, ConfigurationError, StorageUnavailable
from posthouse.settings import Settings


@pytest.fixture(scope="module")
def s3(s3_url):
    """The URL of an S3 server with a bucket."""
    httpx.put(f"{s3_url}/bucket").raise_for_status()
    return s3_url


@pytest.fixture(params=["folder", "bucket"])
def settings(request, tmp_path, monkeypatch):
    if request.param == "folder":
        return Settings(storage_url=f"file://{tmp_path}/a%20shelf")
    monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3"))
    _with_keys(monkeypatch)
    return Settings(storage_url=f"s3://bucket/{tmp_path.name}/jobs")


def _with_keys(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


async def read(store, blob_key, start, size):
    return b"".join([piece async for piece in store.read(blob_key, start, size)])


async def test_what_was_put_is_read_again_whole_and_in_part(settings, tmp_path):
    store = open_store(settings)
    data = os.urandom(11 * 1024 * 1024)  # in S3, more than one part
    (tmp_path / "given").write_bytes(data)
    await store.put("job/one", tmp_path / "given")
    again = open_store(settings)
    assert await read(again, "job/one", 0, len(data)) == data
    assert await read(again, "job/one", 5_000_000, 1_000) == data[5_000_000:5_001_000]
    assert await read(again, "job/one", len(data) - 3, 3) == data[-3:]


async def test_an_empty_file_is_kept(settings, tmp_path):
    store = open_store(settings)
    (tmp_path / "given").write_bytes(b"")
    await store.put("job/none", tmp_path / "given")
    assert await read(store, "job/none", 0, 0) == b""


async def test_what_was_deleted_is_gone_and_may_be_deleted_again(settings, tmp_path):
    store = open_store(settings)
    (tmp_path / "given").write_bytes(b"x")
    await store.put("job/two", tmp_path / "given")
    await store.delete("job/two")
    with pytest.raises(ArtifactNotFound):
        await read(store, "job/two", 0, 1)
    await store.delete("job/two")


async def test_a_missing_bucket_is_reported_as_unavailable(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    _with_keys(monkeypatch)
    (tmp_path / "given").write_bytes(b"x")
    with pytest.raises(StorageUnavailable, match="NoSuchBucket"):
        await open_store(Settings(storage_url="s3://nowhere")).put("job/one", tmp_path / "given")


@pytest.mark.parametrize("url", ["/a/folder", "file://host/folder", "s3:///prefix", "gs://bucket"])
def test_other_addresses_are_refused(url):
    with pytest.raises(ConfigurationError, match="file:///folder or s3://bucket/prefix"):
        open_store(Settings(storage_url=url))
