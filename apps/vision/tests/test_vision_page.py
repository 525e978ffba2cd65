"""The page of the application in a real browser: upload, search, play at the second, clip, delete."""

import asyncio
import os
import shutil
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from waiting import WAIT_SECONDS

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
PICTURES = os.environ.get("VISION_PICTURES")
"""Folder for screenshots, for people who change the page."""


@asynccontextmanager
async def opened(product):
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium-headless-shell")
    playwright = pytest.importorskip("playwright.async_api")
    playwright.expect.set_options(timeout=1000 * WAIT_SECONDS)
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        page = await browser.new_page(base_url=product.url, reduced_motion="reduce")
        page.set_default_timeout(1000 * WAIT_SECONDS)
        yield page, playwright.expect
        await browser.close()


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


async def pictured(page, name):
    if PICTURES is None:
        return
    for theme, width in (("light", 1200), ("dark", 1200), ("light", 390), ("dark", 390)):
        await page.emulate_media(color_scheme=theme)
        await page.set_viewport_size({"width": width, "height": 800})
        await page.screenshot(path=Path(PICTURES) / f"{name}-{theme}-{width}.png")
    await page.set_viewport_size({"width": 1200, "height": 800})


async def test_upload_search_play_at_the_second_and_delete(product, folder, film):
    await product.worker(POSTHOUSE_PROCESS_SLOTS="1")
    async with opened(product) as (page, expect):
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto("/apps/vision/")
        await page.locator("input").first.fill(await product.key("tenant-admin", "acme"))
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("No videos yet")).to_be_visible()
        await page.get_by_label("Video files").set_input_files(film)
        tile = page.get_by_role("listitem").filter(has_text="film.mp4")
        await expect(tile.locator(".status")).to_have_text("Ready")
        await pictured(page, "library")

        await page.get_by_role("searchbox").fill("fresh horses")
        await page.keyboard.press("Enter")
        hit = page.get_by_role("list", name="Search results").get_by_role("link")
        await expect(hit).to_have_count(1)
        await expect(hit.locator("mark")).to_have_text(["Fresh", "horses"])
        await expect(hit).to_contain_text("0:00")
        await expect(hit.locator("img")).not_to_have_js_property("naturalWidth", 0)
        await pictured(page, "search")

        await hit.click()
        assert await reached(page, 0.7) < 2, "the video does not start where the text appears"
        await page.get_by_role("button", name="0:02 Open from dawn").click()
        await reached(page, 2.2)
        await page.get_by_role("button", name="Clip", exact=True).first.click()
        await expect(page.get_by_role("link", name="Download clip")).to_be_visible()
        await pictured(page, "video")
        await page.get_by_role("button", name="Share").click()
        await page.get_by_role("button", name="Create link").click()
        await expect(page.get_by_role("dialog").locator("code")).to_contain_text("/hls/index.m3u8")
        await pictured(page, "share")
        await page.keyboard.press("Escape")

        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No videos yet")).to_be_visible()
        assert problems == []
    await product.until_ended()
    assert [file for file in folder.folder.rglob("*") if file.is_file()] == []
