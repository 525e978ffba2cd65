"""The cloud's recognizer over HTTP: what it does when all is well, and all that can be wrong with it."""

import random
from uuid import uuid4

import pytest

import posthouse
from calls import paths, recognizers, settings, speechkit
from calls.handlers import app, transcribe_poll, transcribe_start
from calls.speechkit import RequestRejected
from calls.stages import PERMANENT_ERRORS
from calls.storage import storage
from posthouse.testing import clock, drain

UNTIL_NOW = "select kind, subject, status, attempt_count, snoozes, last_error from posthouse.jobs"


@pytest.fixture
def call(running_app, audio_files):
    """A call whose speech is in the storage, as if its first stage had run."""

    def add():
        call_id = str(uuid4())
        running_app.rows(
            "insert into calls.calls (id, org_id, title, duration, channels)"
            " values (%s, 'acme', '', 5, 2) returning id", call_id
        )  # fmt: skip
        for path, sound in zip((paths.audio(call_id), paths.ogg(call_id)), audio_files, strict=True):
            storage().put(path, sound)
        return call_id

    return add


async def start(call_id):
    await transcribe_start.using(tenant="acme", subject=call_id).enqueue(
        call_id=call_id, audio_path=paths.audio(call_id)
    )


async def poll(cloud, call_id, operation=None, **options):
    """The poll of an operation that was started before."""
    operation = operation or uuid4().hex
    cloud.operations[operation] = call_id
    return await transcribe_poll.using(tenant="acme", subject=call_id, **options).enqueue(
        call_id=call_id,
        operationId=operation,
        audio_path=paths.audio(call_id),
        ogg_path=paths.ogg(call_id),
        transcript_path=paths.transcript(call_id),
    )


def job_of(running_app, call_id, kind):
    (row,) = running_app.rows(f"{UNTIL_NOW} where subject = %s and kind = %s", call_id, kind.kind)
    return row


def wait_of(running_app, call_id, kind):
    """Seconds from the end of its last attempt to the next."""
    (row,) = running_app.rows(
        "select extract(epoch from j.scheduled_for - a.finished_at)::float as seconds"
        " from posthouse.jobs as j join posthouse.attempts as a on a.job_id = j.id"
        " where j.subject = %s and j.kind = %s order by a.finished_at desc limit 1", call_id, kind.kind
    )  # fmt: skip
    return row["seconds"]


async def test_an_operation_is_started_once_asked_for_at_a_pace_and_its_answer_kept(running_app, cloud, call):
    call_id = call()
    storage().remove([paths.ogg(call_id)])
    cloud.pending[call_id] = 2
    await start(call_id)
    async with clock(app) as time:
        await drain(app)
        assert wait_of(running_app, call_id, transcribe_poll) == pytest.approx(10, abs=0.5)
        for _ in range(2):
            await time.advance("10s")
            await drain(app)
    assert set(running_app.statuses()) == {
        ("calls.transcribe_start", "succeeded"),
        ("calls.transcribe_poll", "succeeded"),
        ("calls.analyze", "succeeded"),
    }
    assert (cloud.starts[call_id], cloud.polls[call_id]) == (1, 3)
    polled = job_of(running_app, call_id, transcribe_poll)
    assert (polled["snoozes"], polled["attempt_count"]) == (2, 1)
    (analysis,) = running_app.rows("select figures from calls.analyses")
    assert analysis["figures"]["speakers"]["1"]["words"] == 4
    assert analysis["figures"]["silence_seconds"] == 1.2
    assert not storage().exists(paths.ogg(call_id))


async def test_starts_that_go_wrong(running_app, cloud, call):
    """Each call has a trouble of its own; all are started at once."""
    waits = {"429": 10, "429 for 40 s": 40, "500": 30, "slow": 30, "no json": 30, "no id": 30}
    calls = {trouble: call() for trouble in waits}
    for trouble, call_id in calls.items():
        cloud.start_troubles[call_id].append(trouble)
        await start(call_id)
    async with clock(app) as time:
        await drain(app)
        for trouble, call_id in calls.items():
            assert wait_of(running_app, call_id, transcribe_start) == pytest.approx(
                waits[trouble], abs=0.5
            ), trouble
            spent = job_of(running_app, call_id, transcribe_start)
            assert (spent["snoozes"] == 1) == trouble.startswith("429"), (
                "to be asked to wait costs no attempt"
            )
        await time.advance("40s")
        await drain(app)
    for call_id in calls.values():
        assert cloud.starts[call_id] == 2
        assert job_of(running_app, call_id, transcribe_start)["status"] == "succeeded"
    assert len(cloud.operations) == len(calls), "none was started twice"


async def test_polls_that_go_wrong(running_app, cloud, call):
    waits = {
        "429": 10,
        "429 for 40 s": 40,
        "500": 30,
        "slow": 30,
        "no json": 30,
        "no id": 30,
        "done with nothing": 30,
        "no times": 30,
        "another": 30,
    }
    calls = {trouble: call() for trouble in waits}
    for trouble, call_id in calls.items():
        cloud.poll_troubles[call_id].append(trouble)
        await poll(cloud, call_id)
    async with clock(app) as time:
        await drain(app)
        found = {trouble: job_of(running_app, call_id, transcribe_poll) for trouble, call_id in calls.items()}
        for trouble, call_id in calls.items():
            assert wait_of(running_app, call_id, transcribe_poll) == pytest.approx(waits[trouble], abs=0.5), (
                trouble
            )
        await time.advance("40s")
        await drain(app)
    errors = {trouble: row["last_error"] for trouble, row in found.items()}
    assert "500: " in errors["500"]
    assert "ReadTimeout" in errors["slow"]
    assert "Invalid JSON" in errors["no json"]
    assert "id: Field required" in errors["no id"]
    assert "neither a response nor an error" in errors["done with nothing"]
    assert "response.chunks.0.alternatives.0.words: Field required" in errors["no times"]
    assert "the response is about another" in errors["another"]
    assert {job_of(running_app, call_id, transcribe_poll)["status"] for call_id in calls.values()} == {
        "succeeded"
    }


async def test_what_would_not_get_better_fails_at_once(running_app, cloud, call):
    failed, unknown = call(), call()
    cloud.poll_troubles[failed].append("failed")
    await poll(cloud, failed)
    await poll(cloud, unknown, "gone")
    del cloud.operations["gone"]
    await drain(app)
    jobs = [job_of(running_app, call_id, transcribe_poll) for call_id in (failed, unknown)]
    assert [(job["status"], job["attempt_count"]) for job in jobs] == [("failed", 1)] * 2
    assert "failed with code 3: no speech" in jobs[0]["last_error"]
    assert "404: " in jobs[1]["last_error"]
    client = await running_app.client_for("tenant-viewer", "acme")
    shown = (await client.get(f"/calls/{failed}")).json()
    assert (shown["status"], shown["stage"]) == ("failed", "transcribe_poll")
    assert "no speech" in shown["error"]


def test_wrong_settings_are_named(cloud, set_env, tmp_path):
    set_env(SPEECHKIT_KEY="another key")
    with pytest.raises(RequestRejected, match="401: "):
        speechkit.poll("an operation")
    set_env(SPEECHKIT_KEY="")
    with pytest.raises(RequestRejected, match="set CALLS_SPEECHKIT_KEY"):
        speechkit.poll("an operation")
    set_env(STORAGE_URL=tmp_path.as_uri())
    with pytest.raises(recognizers.SigningUnsupported, match="fetches the audio from a bucket"):
        recognizers.signed_url("speech.ogg")
    set_env(PROVIDER="parrot")
    with pytest.raises(posthouse.Fail, match="CALLS_PROVIDER 'parrot': expected local or speechkit"):
        recognizers.configured_recognizer()
    assert {RequestRejected, recognizers.SigningUnsupported} <= set(PERMANENT_ERRORS)


async def test_an_operation_that_is_never_done_is_given_up_and_can_be_asked_for_again(
    running_app, cloud, call, set_env
):
    # Real time counts too: short polls and a deadline just below 40 s leave a slow machine half a minute.
    set_env(POLL_LIMIT=2, POLL_DEADLINE="39s", POLL_INTERVAL_MS=1000)
    often, long = call(), call()
    cloud.pending[often] = 100
    cloud.poll_troubles[long].append("429 for 40 s")
    await poll(cloud, often)
    await poll(cloud, long)
    async with clock(app) as time:
        for _ in range(3):
            await drain(app)
            await time.advance("1s")
        jobs = [job_of(running_app, call_id, transcribe_poll) for call_id in (often, long)]
        assert [job["status"] for job in jobs] == ["dead_letter", "dead_letter"]
        assert "snoozed 2 times, the limit is 2" in jobs[0]["last_error"]
        assert "the deadline is 39 s" in jobs[1]["last_error"]
        await _check_again(running_app, cloud, often, long)


async def _check_again(running_app, cloud, *calls):
    """A person may have more patience: the job has all its time again."""
    admin = await running_app.client_for("tenant-admin", "acme")
    for call_id in calls:
        cloud.pending[call_id] = 1
        job_id = (await admin.get(f"/calls/{call_id}")).json()["job_id"]
        answer = await admin.post(f"/api/v1/jobs/{job_id}/retry")
        assert answer.status_code == 200, answer.text
    await drain(app)
    assert {job_of(running_app, call_id, transcribe_poll)["status"] for call_id in calls} == {"queued"}


async def test_a_cloud_that_stays_broken_uses_up_the_attempts(running_app, cloud, call):
    call_id = call()
    cloud.poll_troubles[call_id].append("always 500")
    await poll(cloud, call_id, max_attempts=2)
    async with clock(app) as time:
        await drain(app)
        await time.advance("30s")
        await drain(app)
    assert job_of(running_app, call_id, transcribe_poll)["status"] == "dead_letter"
    client = await running_app.client_for("tenant-viewer", "acme")
    (job,) = (await client.get(f"/calls/{call_id}/jobs")).json()
    assert (job["stage"], job["status"], job["attempts"]) == ("transcribe_poll", "failed", 2)
    assert "500: " in job["last_error"]


def test_the_variables_of_speechkit_are_read_without_the_prefix_of_the_application(monkeypatch):
    monkeypatch.setenv("SPEECHKIT_POLL_INTERVAL_MS", "1500")
    monkeypatch.setenv("SPEECHKIT_KEY", "a key")
    assert settings.poll_interval_seconds(10.0) == 1.5
    assert settings.speechkit_key() == "a key"
    monkeypatch.setenv("CALLS_POLL_INTERVAL_MS", "2500")
    assert settings.poll_interval_seconds(10.0) == 2.5


def test_the_numbers_of_the_seed():
    """30 s times 2 to the n, ten minutes at most; five attempts, and more for polling."""
    for definition in app.definitions.values():
        waits = [definition.policy.retry.delay(attempt, random.Random()) for attempt in range(1, 8)]
        assert waits == [30, 60, 120, 240, 480, 600, 600]
    limits = {name: item.max_attempts for name, item in app.definitions.items()}
    assert limits.pop(transcribe_poll.kind) == 20
    assert set(limits.values()) == {5}
