"""A short film with known texts, a storage in a folder or on an S3 server, and ways to send it through."""

from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

from vision.sample_video import render_video, sample_scenes
from vision.storage import storage

KEYS = {
    "VISION_S3_ACCESS_KEY_ID": "test",
    "VISION_S3_SECRET_ACCESS_KEY": "test",
    "VISION_S3_REGION": "us-east-1",
}


@pytest.fixture
def app_path():
    return "vision:app"


@pytest.fixture(autouse=True)
def _in_threads(handlers_in_threads):
    """All tests that drain; those of the pipeline start workers that have job processes."""


@pytest.fixture(scope="session")
def expected_texts():
    return sample_scenes(4)


@pytest.fixture(scope="session")
def film(expected_texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    render_video(path, expected_texts, seconds=0.75, size=(480, 270))
    return path


@pytest.fixture(scope="session")
def s3():
    """An S3 server on loopback: its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def set_storage(monkeypatch):
    """Chooses a storage for this process and the workers that it starts."""

    def choose(**settings):
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        storage.cache_clear()
        return storage()

    yield choose
    storage.cache_clear()


@pytest.fixture
def folder(set_storage, tmp_path):
    return set_storage(VISION_STORAGE_URL=(tmp_path / "a storage").as_uri())


@pytest.fixture
def bucket(set_storage, s3):
    """A bucket of its own, of which a part is used."""
    name = f"bucket-{uuid4().hex[:8]}"
    boto3.client(
        "s3", endpoint_url=s3, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    ).create_bucket(Bucket=name)
    return set_storage(VISION_STORAGE_URL=f"s3://{name}/some/where", VISION_S3_ENDPOINT=s3, **KEYS)


@pytest.fixture
def send(running_app, film):
    """Registers a video and uploads it, which starts its processing; returns its id."""

    async def through(client, content=film, **new):
        answer = await client.post("/vision/videos", json={"title": "A film", **new})
        assert answer.status_code == 201, answer.text
        video_id = answer.json()["video_id"]
        put = await client.put(f"/vision/videos/{video_id}/original", content=content.read_bytes())
        assert put.status_code == 204, put.text
        return video_id

    return through
