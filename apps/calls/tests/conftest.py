"""Short calls with a known script, a storage in a folder or a bucket, and a stand-in for the cloud."""

import json
from uuid import UUID

import pytest
from fake_speechkit import FakeSpeechKit

from calls import paths, whisper
from calls.audio import convert_to_flac, convert_to_opus
from calls.sample_calls import AGENT, CUSTOMER, EspeakMissing, synthesize_call
from calls.storage import storage
from fixtures.s3 import S3_KEYS
from posthouse.testing import drain

KEY = "a key of the cloud"


@pytest.fixture
def app_path():
    return "calls:app"


@pytest.fixture(autouse=True)
def _in_threads(handlers_in_threads):
    """All tests that drain; those of the pipeline start workers that have job processes."""


@pytest.fixture(scope="session")
def script():
    return [
        (AGENT, "Good morning, this is the delivery office."),
        (CUSTOMER, "Hello, the parcel for my daughter is still not here."),
    ]


@pytest.fixture(scope="session")
def recording(script, tmp_path_factory):
    try:
        return synthesize_call(tmp_path_factory.mktemp("calls") / "call.wav", script)
    except EspeakMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def audio_files(recording, tmp_path_factory):
    """The recording as the stages make it: (flac, ogg)."""
    folder = tmp_path_factory.mktemp("sounds")
    with convert_to_flac(recording) as flac, convert_to_opus(flac) as ogg:
        return flac.rename(folder / "audio.flac"), ogg.rename(folder / "speech.ogg")


@pytest.fixture(scope="session")
def recognized_call(audio_files):
    """What the local recognizer answers about the recording."""
    return json.dumps(whisper.recognize(audio_files[1], "an operation", lambda _: None)).encode()


@pytest.fixture
def set_env(monkeypatch):
    """Settings for this process and the workers that it starts."""

    def choose(**settings):
        for name, value in settings.items():
            monkeypatch.setenv(f"CALLS_{name}", str(value))
        storage.cache_clear()
        return storage()

    yield choose
    storage.cache_clear()


@pytest.fixture
def folder(set_env, tmp_path):
    return set_env(STORAGE_URL=(tmp_path / "a storage").as_uri(), POLL_INTERVAL_MS=200)


@pytest.fixture
def bucket(set_env, s3_url, bucket_name):
    keys = {f"S3_{name.upper()}": value for name, value in S3_KEYS.items()}
    return set_env(STORAGE_URL=f"s3://{bucket_name}/recordings", S3_ENDPOINT=s3_url, **keys)


@pytest.fixture
def cloud(bucket, set_env):
    """The cloud's recognizer, and settings that lead there."""
    with FakeSpeechKit(KEY) as running:
        set_env(
            PROVIDER="speechkit",
            SPEECHKIT_URL=running.url,
            SPEECHKIT_OPERATIONS_URL=running.url,
            SPEECHKIT_KEY=KEY,
            SPEECHKIT_TIMEOUT_SECONDS=5,
        )
        yield running


@pytest.fixture
def finish(running_app):
    """Runs jobs in this process until none is queued or running; polls that snooze come again. The recognizer
    has answered already: it would keep the threads of this process from running.
    """

    async def run(call_id, answer=None):
        if answer is not None:
            storage().put(paths.recognized(UUID(call_id)), answer)
        active = ("queued", "running")
        while any(status in active for _, status in running_app.statuses()):
            await drain(running_app.app)

    return run


@pytest.fixture
def upload_call(recording):
    """Uploads a recording; returns the id of its call."""

    async def upload(client, content=recording, title="A call"):
        content = content if isinstance(content, bytes) else content.read_bytes()
        answer = await client.post("/calls", params={"title": title}, content=content)
        assert answer.status_code == 201, answer.text
        return answer.json()["call_id"]

    return upload
