"""What ocr reads, and that it goes on behind what was read."""

from io import BytesIO
from uuid import uuid4

from PIL import Image, ImageDraw, ImageFont

from posthouse.testing import drain
from vision import paths
from vision.handlers import app, ocr
from vision.regions import read_regions
from vision.spans import Span, frame_spans


def picture(text):
    image = Image.new("RGB", (320, 80), "black")
    ImageDraw.Draw(image).text((10, 20), text, font=ImageFont.load_default(size=32), fill="white")
    buffer = BytesIO()
    image.save(buffer, "JPEG")
    return buffer.getvalue()


def test_frames_that_no_payload_names_are_found_in_the_storage(folder):
    video_id = uuid4()
    for at in (900, 0, 1000):
        folder.put(paths.frame(video_id, at), b"")
    expected = [(paths.frame(video_id, at), at, end) for at, end in ((0, 900), (900, 1000), (1000, 1400))]
    assert frame_spans(video_id, None, 1400) == expected
    assert frame_spans(uuid4(), None, 1400) == []


def test_text_below_the_minimum_confidence_is_dropped(folder):
    span = Span(paths.frame(uuid4(), 0), 0, 500)
    folder.put(span.path, picture("Number one"))
    (region,) = read_regions(span, ["eng"], 0.6)
    assert (region["text"], region["t_start"], region["t_end"]) == ("Number one", 0, 500)
    assert 0.6 <= region["confidence"] < 1
    assert read_regions(span, ["eng"], 1.0) == []


async def test_frames_that_were_read_are_not_read_again(running_app, folder, monkeypatch):
    """The last frame is missing; when it is there, the job is retried and reads this one alone."""
    monkeypatch.setenv("VISION_OCR_BATCH", "1")
    client = await running_app.client_for("tenant-admin", "acme")
    video_id = (await client.post("/vision/videos", json={})).json()["video_id"]
    frames = [paths.frame(video_id, at) for at in (0, 500, 1000)]
    for frame, text in zip(frames[:2], ("Number one", "Number two"), strict=True):
        folder.put(frame, picture(text))
    handle = await ocr.using(tenant="acme").enqueue(video_id=video_id, frame_paths=frames)
    await drain(app)
    assert texts(running_app) == [("Number one", 0, 500), ("Number two", 500, 1000)]
    (failed,) = running_app.rows("select status, error from posthouse.jobs where kind = 'vision.ocr'")
    assert (failed["status"], failed["error"]["message"]) == ("failed", f"Frame not found at {frames[2]}")

    folder.remove(frames[:2])
    folder.put(frames[2], picture("Number three"))
    assert (await client.post(f"/api/v1/jobs/{handle.id}/retry")).status_code == 200
    await drain(app)
    assert texts(running_app) == [
        ("Number one", 0, 500),
        ("Number two", 500, 1000),
        ("Number three", 1000, 1000),
    ]
    assert (await client.get(f"/vision/videos/{video_id}")).json()["status"] == "ready"


def texts(running_app):
    rows = running_app.rows("select text, t_start, t_end from vision.segments order by t_start")
    return [tuple(row.values()) for row in rows]


async def test_the_frames_of_a_video_are_read_by_several_jobs_and_indexed_after_the_last(
    running_app, folder, send, expected_texts, monkeypatch
):
    monkeypatch.setenv("VISION_OCR_CHUNK", "1")
    client = await running_app.client_for("tenant-admin", "acme")
    video_id = await send(client)
    await drain(app, queues=("vision.transcode", "vision.sample"))
    jobs = running_app.rows("select * from vision.jobs where status = 'queued' order by created_at, id")
    *parts, last = jobs
    assert [job["job_type"] for job in jobs] == ["ocr"] * len(expected_texts) + ["segment_index"]
    assert [len(job["payload"]["frame_paths"]) for job in parts] == [1] * len(expected_texts)
    assert set(last["depends_on"]) == {job["id"] for job in parts}
    await drain(app)
    assert len(texts(running_app)) == sum(len(scene) for scene in expected_texts)
    assert (await client.get(f"/vision/videos/{video_id}")).json()["status"] == "ready"
    assert len(running_app.rows("select 1 from vision.jobs where job_type = 'segment_index'")) == 1
