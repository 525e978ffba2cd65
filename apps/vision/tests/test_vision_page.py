"""The page of the application in a real browser: upload, search, play at the second, clip, delete."""

import asyncio
import time

from support.browsers import log_in, opened, take_pictures
from support.waiting import WAIT_SECONDS


async def reached(page, second):
    """Return the position of the player when it has a frame at or after this second."""
    video = page.locator("video")
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        ready, at = await video.evaluate("element => [element.readyState, element.currentTime]")
        if ready > 1 and at >= second:
            return at
        assert time.monotonic() < deadline, f"the player is at {at} s, ready state {ready}"
        await asyncio.sleep(0.1)


async def test_upload_search_play_at_the_second_and_delete(running_app, folder, film):
    async with opened(running_app.url) as (page, expect):
        await running_app.worker(POSTHOUSE_PROCESS_SLOTS="1")
        await log_in(page, "/apps/vision/", await running_app.key("tenant-admin", "acme"))
        await expect(page.get_by_text("No videos yet")).to_be_visible()
        await page.get_by_label("Video files").set_input_files(film)
        tile = page.get_by_role("listitem").filter(has_text="film.mp4")
        await expect(tile.locator(".status")).to_have_text("Ready")
        await take_pictures(page, "library")

        await page.get_by_role("searchbox").fill("fresh horses")
        await page.keyboard.press("Enter")
        hit = page.get_by_role("list", name="Search results").get_by_role("link")
        await expect(hit).to_have_count(1)
        await expect(hit.locator("mark")).to_have_text(["Fresh", "horses"])
        await expect(hit).to_contain_text("0:00")
        await expect(hit.locator("img")).not_to_have_js_property("naturalWidth", 0)
        await take_pictures(page, "search")

        await hit.click()
        assert await reached(page, 0.7) < 2, "the video does not start where the text appears"
        await page.get_by_role("button", name="0:02 Open from dawn").click()
        await reached(page, 2.2)
        await page.get_by_role("button", name="Clip", exact=True).first.click()
        await expect(page.get_by_role("link", name="Download clip")).to_be_visible()
        await take_pictures(page, "video")
        await page.get_by_role("button", name="Share").click()
        await page.get_by_role("button", name="Create link").click()
        await expect(page.get_by_role("dialog").locator("code")).to_contain_text("/hls/index.m3u8")
        await take_pictures(page, "share")
        await page.keyboard.press("Escape")

        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No videos yet")).to_be_visible()
    await running_app.until_ended()
    assert [file for file in folder.folder.rglob("*") if file.is_file()] == []
