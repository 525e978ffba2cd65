"""From upload to a ladder that plays, by a worker over HTTP that has neither database nor disk in common."""

from __future__ import annotations

from vlog_kit import ffprobe


async def test_an_upload_becomes_a_ladder(studio, clip, library):
    product = studio.product
    video = await studio.upload(clip)
    assert (video["status"], video["playable"], video["slug"]) == ("pending", False, "a-day-out")
    await product.worker("--queue", "vlog", remote=True)
    await product.worker("--queue", "vlog-library", "--no-keeper")
    ready = await studio.until(video, "ready", "failed")
    assert ready["error_message"] is None
    assert [item["quality"] for item in ready["qualities"]] == ["360p", "240p", "144p"]
    folder = library / "a-day-out" / ready["version"]
    for quality in ready["qualities"]:
        found = ffprobe(folder / quality["quality"] / "index.m3u8")
        assert (found["streams"][0]["width"], found["streams"][0]["height"]) == (
            quality["width"],
            quality["height"],
        )
        assert abs(float(found["format"]["duration"]) - 7) < 0.3
    assert studio.parts(video)[0] == ("480p", "skipped", 1)
    master = await studio.client.get(ready["playlist"])
    assert master.text.count("#EXT-X-STREAM-INF") == 3
