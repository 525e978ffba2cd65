"""A short film with known texts, a storage in a folder or on an S3 server, and ways to send it through."""

import pytest

from fixtures.s3 import S3_KEYS
from vision.sample_video import render_video, sample_scenes
from vision.storage import storage


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
def bucket(set_storage, s3_url, bucket_name):
    """A bucket of its own, of which a part is used."""
    keys = {f"VISION_S3_{name.upper()}": value for name, value in S3_KEYS.items()}
    return set_storage(VISION_STORAGE_URL=f"s3://{bucket_name}/some/where", VISION_S3_ENDPOINT=s3_url, **keys)


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
