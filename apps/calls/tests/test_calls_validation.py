"""What cannot work fails at once and says why; what belongs to others is not touched."""

from uuid import uuid4

from calls import paths
from calls.handlers import analyze, app, extract_audio, transcribe_start
from posthouse.testing import drain


def added(running_app, org="acme"):
    call_id = str(uuid4())
    running_app.rows(
        "insert into calls.calls (id, org_id, title) values (%s, %s, '') returning id", call_id, org
    )
    return call_id


def left(tmp_path):
    return [path for path in (tmp_path / "a storage").rglob("*") if path.is_file()]


async def test_jobs_that_cannot_succeed_fail_at_once_and_say_why(
    running_app, folder, upload_call, audio_files
):
    lost, foreign, empty, unheard = (added(running_app) for _ in range(4))
    admin = await running_app.client_for("tenant-admin", "acme")
    garbage = await upload_call(admin, b"this is no recording")
    for call_id in (foreign, unheard):
        folder.put(paths.audio(call_id), audio_files[0])
    await extract_audio.using(tenant="acme", subject=lost).enqueue(call_id=lost, raw_path=paths.raw(lost))
    await transcribe_start.using(tenant="globex", subject=foreign).enqueue(
        call_id=foreign, audio_path=paths.audio(foreign)
    )
    await transcribe_start.using(tenant="acme", subject=unheard).enqueue(
        call_id=unheard, audio_path=paths.audio(foreign)
    )
    await analyze.using(tenant="acme", subject=empty).enqueue(
        call_id=empty, transcript_path=paths.transcript(empty)
    )
    await drain(app)
    rows = running_app.rows("select subject, status, attempt_count, error from posthouse.jobs")
    assert {(row["status"], row["attempt_count"]) for row in rows} == {("failed", 1)}
    errors = {
        row["subject"]: (row["error"]["type"].rpartition(".")[2], row["error"]["message"]) for row in rows
    }
    assert errors == {
        garbage: ("NoAudio", "the recording has no audio, or is not an audio or video file"),
        lost: ("NotStored", f"recording not found at {paths.raw(lost)}"),
        foreign: ("CallNotFound", f"call {foreign} does not exist"),
        unheard: (
            "WrongFile",
            f"invalid path {paths.audio(foreign)!r}: expected {paths.audio(unheard)!r}",
        ),
        empty: ("NotStored", f"file not found at {paths.transcript(empty)}"),
    }
    assert (await admin.get(f"/calls/{garbage}")).json()["status"] == "failed"


async def test_an_upload_of_nothing_is_refused_and_leaves_nothing(running_app, folder, tmp_path):
    admin = await running_app.client_for("tenant-admin", "acme")
    answer = await admin.post("/calls", content=b"")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "the request body is empty; send the recording as body"
    assert running_app.rows("select * from calls.calls") == []
    assert left(tmp_path) == []


async def test_uploads_are_bounded_and_need_the_right_role(running_app, set_env, folder, recording, tmp_path):
    set_env(MAX_UPLOAD_BYTES=1000)
    admin, viewer = (
        await running_app.client_for("tenant-admin", "acme"),
        await running_app.client_for("tenant-viewer", "acme"),
    )
    assert (await admin.post("/calls", content=recording.read_bytes())).status_code == 413
    assert (await viewer.post("/calls", content=b"sound")).status_code == 403
    assert running_app.rows("select * from calls.calls") == []
    assert left(tmp_path) == []
    assert (await admin.get(f"/calls/{uuid4()}")).status_code == 404


async def test_values_that_cannot_be_stored_are_refused(running_app, folder, tmp_path):
    admin = await running_app.client_for("tenant-admin", "acme")
    answer = await admin.post("/calls", params={"title": "a\x00b"}, content=b"recording")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
    assert (running_app.rows("select * from calls.calls"), left(tmp_path)) == ([], [])
