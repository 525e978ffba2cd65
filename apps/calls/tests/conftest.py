"""Short calls with a known script, a storage in a folder or a bucket, and a stand-in for the cloud."""

import json
from uuid import UUID, uuid4

import boto3
import pytest
from fake_speechkit import FakeSpeechKit
from moto.server import ThreadedMotoServer

from calls import paths, whisper
from calls.audio import as_flac, as_opus
from calls.sample_calls import AGENT, CUSTOMER, EspeakMissing, record
from calls.storage import storage
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
        return record(tmp_path_factory.mktemp("calls") / "call.wav", script)
    except EspeakMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def sounds(recording, tmp_path_factory):
    """The recording as the stages make it: (flac, ogg)."""
    folder = tmp_path_factory.mktemp("sounds")
    with as_flac(recording) as flac, as_opus(flac) as ogg:
        return flac.rename(folder / "audio.flac"), ogg.rename(folder / "speech.ogg")


@pytest.fixture(scope="session")
def recognized_call(sounds):
    """What the local recognizer answers about the recording."""
    return json.dumps(whisper.recognize(sounds[1], "an operation", lambda _: None)).encode()


@pytest.fixture
def chosen(monkeypatch):
    """Settings for this process and the workers that it starts."""

    def choose(**settings):
        for name, value in settings.items():
            monkeypatch.setenv(f"CALLS_{name}", str(value))
        storage.cache_clear()
        return storage()

    yield choose
    storage.cache_clear()


@pytest.fixture
def folder(chosen, tmp_path):
    return chosen(STORAGE_URL=(tmp_path / "a storage").as_uri(), POLL_INTERVAL_MS=200)


@pytest.fixture(scope="session")
def s3():
    """An S3 server on loopback: its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(chosen, s3):
    name, region = f"bucket-{uuid4().hex[:8]}", "us-east-1"
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    boto3.client("s3", endpoint_url=s3, region_name=region, **keys).create_bucket(Bucket=name)
    return chosen(
        STORAGE_URL=f"s3://{name}/recordings",
        S3_ENDPOINT=s3,
        S3_REGION=region,
        S3_ACCESS_KEY_ID="test",
        S3_SECRET_ACCESS_KEY="test",
    )


@pytest.fixture
def cloud(bucket, chosen):
    """The cloud's recognizer, and settings that lead there."""
    with FakeSpeechKit(KEY) as running:
        chosen(
            PROVIDER="speechkit",
            SPEECHKIT_URL=running.url,
            SPEECHKIT_OPERATIONS_URL=running.url,
            SPEECHKIT_KEY=KEY,
            SPEECHKIT_TIMEOUT_SECONDS=5,
        )
        yield running


@pytest.fixture
def finish(product):
    """Runs jobs in this process until none is queued or running; polls that snooze come again. The recognizer
    has answered already: it would keep the threads of this process from running.
    """

    async def run(call_id, answer=None):
        if answer is not None:
            storage().put(paths.recognized(UUID(call_id)), answer)
        active = ("queued", "running")
        while any(status in active for _, status in product.statuses()):
            await drain(product.app)

    return run


@pytest.fixture
def send(recording):
    """Uploads a recording; returns the id of its call."""

    async def upload(client, content=recording, title="A call"):
        content = content if isinstance(content, bytes) else content.read_bytes()
        answer = await client.post("/calls", params={"title": title}, content=content)
        assert answer.status_code == 201, answer.text
        return answer.json()["call_id"]

    return upload
