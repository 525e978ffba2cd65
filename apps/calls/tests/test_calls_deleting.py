"""What is deleted is gone, what failed is kept for a while, and what was canceled is shown so."""

import os
import time
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from calls import paths
from calls.handlers import app, discard, extract_audio, recognize, sweep, transcribe_poll
from posthouse.testing import clock, drain

RESULTS = ("", "/jobs", "/audio", "/transcript", "/analysis", "/export.srt", "/export.vtt", "/export.json")


def files(storage):
    return sorted(
        str(file.relative_to(storage.folder)) for file in storage.folder.rglob("*") if file.is_file()
    )


async def test_a_deleted_call_leaves_no_row_file_or_payload(
    running_app, folder, upload_call, finish, recognized_call
):
    admin, stranger = (
        await running_app.client_for("tenant-admin", "acme"),
        await running_app.client_for("tenant-admin", "globex"),
    )
    call_id = await upload_call(admin)
    await finish(call_id, recognized_call)
    urls = [f"/calls/{call_id}{path}" for path in RESULTS]
    for url in urls:
        assert (await admin.get(url)).status_code == 200, url
    assert (await stranger.delete(f"/calls/{call_id}")).status_code == 404
    assert (await admin.delete(f"/calls/{call_id}")).status_code == 204
    assert (await admin.delete(f"/calls/{call_id}")).status_code == 404
    await drain(app)
    for url in urls:
        assert (await admin.get(url)).status_code == 404, url
    assert (await admin.get("/calls/search", params={"q": "parcel"})).json() == []
    assert files(folder) == []
    for table in ("calls", "artifacts", "analyses", "phrases"):
        assert running_app.rows(f"select 1 from calls.{table}") == [], table
    kept = running_app.rows("select payload, result from posthouse.jobs where subject = %s", call_id)
    assert {(str(row["payload"]), row["result"]) for row in kept} == {("{}", None)}


async def test_files_that_a_job_still_writes_are_deleted_when_it_has_ended(running_app, folder):
    call_id = uuid4()
    late = extract_audio.using(tenant="acme", subject=str(call_id), delay="1h")
    running = await late.enqueue(call_id=call_id, raw_path=paths.raw(call_id))
    deleted = await discard.using(tenant="acme").enqueue(call_id=call_id)
    async with clock(app) as now:
        await drain(app)
        folder.put(paths.ogg(call_id), b"written late")
        admin = await running_app.client_for("tenant-admin", "acme")
        assert (await admin.post(f"/api/v1/jobs/{running.id}/cancel")).status_code == 200
        await now.advance("1s")
        await drain(app)
    await deleted.wait("30s")
    assert files(folder) == []


async def test_uploads_of_failed_calls_and_files_without_a_call_are_swept(running_app, folder, upload_call):
    admin = await running_app.client_for("tenant-admin", "acme")
    failed = await upload_call(admin, b"this is no recording")
    unknown = [paths.audio(uuid4()), paths.raw(uuid4())]
    for path in unknown:
        folder.put(path, b"left behind")
    long_ago = time.time() - timedelta(days=2).total_seconds()
    os.utime(folder.folder / unknown[0], (long_ago, long_ago))
    async with clock(app) as now:
        await drain(app)
        await sweep.enqueue()
        await drain(app)
        assert files(folder) == sorted([paths.raw(failed), unknown[1]])
        await now.advance("31d")
        await sweep.enqueue()
        await drain(app)
        assert files(folder) == [unknown[1]]
        call = (await admin.get(f"/calls/{failed}")).json()
        assert (call["status"], call["upload_deleted_at"] is None) == ("failed", False)
        again = await admin.post(f"/calls/{failed}/process")
    assert again.status_code == 409
    assert "was deleted; upload it again" in again.json()["detail"]


@pytest.mark.usefixtures("folder")
async def test_a_canceled_recognition_cancels_the_call_and_polls_are_one_job(running_app, set_env):
    set_env(POLL_INTERVAL_MS=600_000)
    call_id = str(uuid4())
    running_app.rows(
        "insert into calls.calls (id, org_id, title) values (%s, 'acme', '') returning id", call_id
    )
    about_it = {"tenant": "acme", "subject": call_id}
    operation = await recognize.using(delay="1h", **about_it).enqueue(
        call_id=call_id, ogg_path=paths.ogg(call_id)
    )
    files_of = {"audio_path": paths.audio, "ogg_path": paths.ogg, "transcript_path": paths.transcript}
    named = {name: path(UUID(call_id)) for name, path in files_of.items()}
    await transcribe_poll.using(**about_it).enqueue(call_id=call_id, operationId=str(operation.id), **named)
    admin = await running_app.client_for("tenant-admin", "acme")
    async with clock(app) as now:
        for _ in range(3):
            await drain(app)
            await now.advance("10m")
        assert (await admin.get(f"/calls/{call_id}")).json()["status"] == "processing"
        assert (await admin.post(f"/api/v1/jobs/{operation.id}/cancel")).status_code == 200
        await drain(app)
    call = (await admin.get(f"/calls/{call_id}")).json()
    assert (call["status"], call["stage"]) == ("canceled", "transcribe_poll")
    assert f"the recognition {operation.id} was canceled" in call["error"]
    (poll,) = (await admin.get(f"/calls/{call_id}/jobs")).json()
    assert (poll["status"], poll["attempts"], poll["polls"]) == ("canceled", 1, 4)
