"""The pages in a real browser: upload that continues, progress per quality, watch, switch quality, delete."""

from __future__ import annotations

import httpx
from vlog_fleet import Fleet

from support.browsers import log_in, opened, take_pictures

ARRIVED = 1000
"""Bytes that the server has when the upload is interrupted."""


def disk(tmp_path):
    """All files of the application and of the artifact storage."""
    files = (file for name in ("uploads", "videos", "data") for file in (tmp_path / name).rglob("*"))
    return {file for file in files if file.is_file()}


async def interrupt(page, vlog_client, clip):
    """Reload the page in the middle of an upload, of which the server has the first bytes."""
    async with page.expect_request("**/uploads/*?offset=0") as sent:
        await page.route("**/uploads/*?offset=0", lambda _: None)
        await page.locator("input[type=file]").first.set_input_files(clip)
    where = (await sent.value).url.replace(vlog_client.running_app.url, "")
    await vlog_client.client.patch(where, content=clip.read_bytes()[:ARRIVED])
    await page.unroute_all(behavior="ignoreErrors")
    await page.reload()


async def test_upload_continue_watch_switch_quality_and_delete(vlog_client, clip, tmp_path, monkeypatch):
    monkeypatch.setenv("VLOG_QUALITIES", "240p,144p")
    running_app = vlog_client.running_app
    before, seen = disk(tmp_path), set()
    async with opened(running_app.url) as (page, expect):
        page.on("requestfinished", lambda asked: seen.add(asked.url) if asked.method == "GET" else None)
        await log_in(page, "/apps/vlog/", await running_app.key("tenant-admin", "acme"))
        await expect(page.get_by_text("No videos yet")).to_be_visible()

        await interrupt(page, vlog_client, clip)
        transfer = page.get_by_role("list", name="Uploads").get_by_role("listitem")
        await expect(transfer).to_contain_text("Interrupted. Choose the same file again to continue.")
        async with page.expect_request(f"**/uploads/*?offset={ARRIVED}"):
            await page.locator("input[type=file]").first.set_input_files(clip)
        tile = page.get_by_role("list", name="Videos").get_by_role("link")
        await expect(tile).to_contain_text("Waiting for a worker")
        await expect(transfer).to_have_count(0)

        await follow(page, expect, running_app)
        worker = await running_app.app.worker()
        await worker.start()
        await page.get_by_role("link", name="Videos").click()
        await expect(tile.locator(".status")).to_have_text("Ready")
        await expect(tile.locator("img")).not_to_have_js_property("naturalWidth", 0)
        await take_pictures(page, "library")

        await tile.click()
        player = page.locator("video")
        await player.evaluate("element => { element.muted = true; return element.play() }")
        await player.evaluate("element => { element.pause(); element.currentTime = 1 }")
        for name, height in (("144p", 144), ("240p", 240)):
            await page.get_by_label("Quality", exact=True).select_option(label=name)
            await expect(player).to_have_js_property("videoHeight", height)
            await expect(page.get_by_text(f"{name}: ")).to_be_visible()
        await take_pictures(page, "watch")
        (video,) = (await vlog_client.client.get("/api/videos")).json()

        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No videos yet")).to_be_visible()
    await running_app.until_ended()
    await worker.stop(0)
    await check_gone(vlog_client, video, seen)
    await running_app.stop()
    await running_app.start()  # deletes the bytes of artifacts at its start, and then each minute
    await running_app.until(
        lambda: disk(tmp_path) == before, f"the disk as before: {disk(tmp_path) - before}"
    )


async def follow(page, expect, running_app):
    """See on the admin page what a worker reports, until it fails."""
    fleet = Fleet(running_app, None, None)
    worker_client = await fleet.register_worker("studio-1")
    await page.get_by_role("link", name="Transcoding", exact=True).click()
    card = page.get_by_role("list", name="Videos in progress").get_by_role("listitem").first
    await expect(card).to_contain_text("no worker yet")
    job = await worker_client.claim()
    progress = {"quality": "240p", "status": "in_progress", "progress_percent": 30}
    progress |= {"segments_total": 40, "segments_completed": 12}
    await worker_client.report(job, current_step="transcode", quality_progress=[progress])
    await expect(card).to_contain_text("Transcoding")
    quality = card.get_by_role("listitem").filter(has_text="240p")
    await expect(quality).to_contain_text("12 of 40 segments")
    await expect(quality.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "30")
    await expect(page.get_by_role("table", name="Workers").get_by_role("row")).to_have_count(2)
    await take_pictures(page, "admin")
    await worker_client.fail(job)
    await expect(card).to_contain_text("attempt 2 of 3")
    await fleet.close()


async def check_gone(vlog_client, video, seen):
    """All addresses that the browser has used for the video, and that of its source, are 404."""
    named = [f"/api/videos/{video['id']}", "/api/videos/uploads/"]
    addresses = {url for url in seen if any(name in url for name in named)}
    kinds = {url.rpartition(".")[2] for url in addresses}
    assert {"m3u8", "ts", "jpg"} <= kinds, kinds
    addresses.add(f"/api/v1/jobs/{video['job_id']}/artifacts/{video['id']}.mp4")
    async with httpx.AsyncClient(
        base_url=vlog_client.running_app.url, headers=vlog_client.client.headers
    ) as client:
        for address in addresses:
            assert (await client.get(address)).status_code == 404, address
