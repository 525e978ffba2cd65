"""One contract for folders and S3."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import boto3
import httpx
import pytest

from vision.storage import S3ObjectNotFound, Storage


@pytest.fixture(params=["folder", "bucket"])
def store(request):
    return request.getfixturevalue(request.param)


def paths(store, prefix):
    return sorted(item.path for item in store.found(prefix))


def test_what_is_put_is_there_and_can_be_removed(store, tmp_path):
    store.put("frames/a/1.jpg", b"one")
    (tmp_path / "two").write_bytes(b"two" * 5_000_000)
    store.put("frames/a/2.jpg", tmp_path / "two")
    assert store.exists("frames/a/1.jpg")
    assert store.get("frames/a/1.jpg") == b"one"
    assert sum(len(chunk) for chunk in store.chunks("frames/a/2.jpg")) == 15_000_000
    assert paths(store, "frames") == ["frames/a/1.jpg", "frames/a/2.jpg"]
    store.remove(["frames/a/1.jpg", "frames/a/none.jpg"])
    assert not store.exists("frames/a/1.jpg")
    assert paths(store, "nothing") == []


def test_a_missing_file_is_reported(store):
    with pytest.raises(S3ObjectNotFound, match=r"Frame not found at frames/a/7\.jpg"):
        store.get("frames/a/7.jpg", "Frame")
    with pytest.raises(S3ObjectNotFound), store.opened("frames/a/7.jpg"):
        pass


def test_an_object_can_be_opened_as_a_file(store):
    store.put("videos/x.mp4", b"content")
    with store.opened("videos/x.mp4") as file:
        assert file.read_bytes() == b"content"
        assert file.suffix == ".mp4"


def test_a_folder_takes_the_place_of_what_was_there(store, tmp_path):
    store.put("proxy/a/segment_9.ts", b"of an earlier run")
    store.put("proxy/ab/index.m3u8", b"of another")
    (tmp_path / "out").mkdir()
    for name in ("index.m3u8", "segment_0.ts", "segment_1.ts"):
        (tmp_path / "out" / name).write_text(name)
    store.put_folder("proxy/a", tmp_path / "out", last="index.m3u8")
    assert paths(store, "proxy/a") == ["proxy/a/index.m3u8", "proxy/a/segment_0.ts", "proxy/a/segment_1.ts"]
    assert store.exists("proxy/ab/index.m3u8")


def test_what_is_too_old_is_removed(store):
    store.put("videos/clips/a/1.mp4", b"clip")
    later = datetime.now(UTC) + timedelta(days=30, minutes=1)
    assert store.remove_older("videos/clips", timedelta(days=31), later) == []
    assert store.remove_older("videos/clips", timedelta(days=30), later) == ["videos/clips/a/1.mp4"]
    assert not store.exists("videos/clips/a/1.mp4")


def test_a_bucket_gives_out_a_place_to_upload_to(bucket):
    url = bucket.upload_url("videos/original/x/master.mp4", 60)
    httpx.put(url, content=b"uploaded").raise_for_status()
    assert bucket.get("videos/original/x/master.mp4") == b"uploaded"


def test_a_folder_has_no_upload_url(folder):
    assert folder.upload_url("videos/original/x/master.mp4", 60) is None


def test_invalid_settings_are_rejected():
    with pytest.raises(Exception, match="scheme"):
        Storage("nonsense://somewhere")


def test_the_shared_names_of_a_bucket_are_enough(chosen_storage, bucket, s3, monkeypatch):
    del bucket
    name = f"bucket-{uuid4().hex[:8]}"
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    boto3.client("s3", endpoint_url=s3, region_name="us-east-1", **keys).create_bucket(Bucket=name)
    for variable in ("STORAGE_URL", "S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"VISION_{variable}")
    store = chosen_storage(
        S3_BUCKET=name, S3_ENDPOINT=s3, S3_REGION="us-east-1", S3_ACCESS_KEY_ID="test",
        S3_SECRET_ACCESS_KEY="test",
    )  # fmt: skip
    store.put("videos/a", b"bytes")
    assert store.get("videos/a") == b"bytes"
