"""ocr goes on behind what was read; more frames than a payload holds are found in the storage."""

from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

from posthouse.testing import drain
from vision import paths
from vision.handlers import app, ocr


def picture(text):
    image = Image.new("RGB", (320, 80), "black")
    ImageDraw.Draw(image).text((10, 20), text, font=ImageFont.load_default(size=32), fill="white")
    buffer = BytesIO()
    image.save(buffer, "JPEG")
    return buffer.getvalue()


async def test_frames_that_were_read_are_not_read_again(product, folder, monkeypatch):
    """The last frame is missing; when it is there, the job is retried and reads this one alone."""
    monkeypatch.setenv("VISION_OCR_BATCH", "1")
    client = await product.as_("tenant-admin", "acme")
    video_id = (await client.post("/vision/videos", json={})).json()["video_id"]
    frames = [paths.frame(video_id, at) for at in (0, 500, 1000)]
    for frame, text in zip(frames[:2], ("Number one", "Number two"), strict=True):
        folder.put(frame, picture(text))
    handle = await ocr.using(tenant="acme").enqueue(video_id=video_id, frame_paths=frames)
    await drain(app)
    assert texts(product) == [("Number one", 0, 500), ("Number two", 500, 1000)]
    (failed,) = product.rows("select status, error from posthouse.jobs where kind = 'vision.ocr'")
    assert (failed["status"], failed["error"]["message"]) == ("failed", f"Frame not found at {frames[2]}")

    folder.remove(frames[:2])
    folder.put(frames[2], picture("Number three"))
    assert (await client.post(f"/api/v1/jobs/{handle.id}/retry")).status_code == 200
    await drain(app)
    assert texts(product) == [("Number one", 0, 500), ("Number two", 500, 1000), ("Number three", 1000, 1000)]
    assert (await client.get(f"/vision/videos/{video_id}")).json()["status"] == "ready"


def texts(product):
    rows = product.rows("select text, t_start, t_end from vision.segments order by t_start")
    return [tuple(row.values()) for row in rows]
