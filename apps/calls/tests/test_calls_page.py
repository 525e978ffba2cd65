"""The page of the application in a real browser: upload, follow the player, search, export, delete."""

import asyncio
import os
import re
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from waiting import WAIT_SECONDS

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
PICTURES = os.environ.get("CALLS_PICTURES")
"""Folder for screenshots, for people who change the page."""


@asynccontextmanager
async def opened(product):
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium-headless-shell")
    playwright = pytest.importorskip("playwright.async_api")
    playwright.expect.set_options(timeout=1000 * WAIT_SECONDS)
    async with playwright.async_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        allowed = "--autoplay-policy=no-user-gesture-required"
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=[*arguments, allowed])
        page = await browser.new_page(base_url=product.url, reduced_motion="reduce")
        page.set_default_timeout(1000 * WAIT_SECONDS)
        yield page, playwright.expect
        await browser.close()


async def pictured(page, name):
    if PICTURES is None:
        return
    for theme, width in (("light", 1200), ("dark", 1200), ("light", 390), ("dark", 390)):
        await page.emulate_media(color_scheme=theme)
        await page.set_viewport_size({"width": width, "height": 800})
        await page.screenshot(path=Path(PICTURES) / f"{name}-{theme}-{width}.png")
    await page.set_viewport_size({"width": 1200, "height": 800})


SEEN = """list => new MutationObserver(() => {
  const seen = list.dataset.seen ?? ""
  const speaker = list.querySelector("[aria-current]")?.dataset.speaker ?? ""
  if (!seen.endsWith(speaker)) list.dataset.seen = seen + speaker
}).observe(list, { subtree: true, attributes: true })"""
"""Notes the speakers whose phrases were highlighted, because a slow machine may look too late."""


async def check_player(page, expect):
    transcript = page.get_by_role("list", name="Transcript")
    await transcript.get_by_text("parcel").click()
    await expect(transcript.locator("[aria-current=true]")).to_contain_text("Speaker 2")
    await expect(transcript.locator("[data-now]")).to_have_count(1)
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()  # it has ended
    await transcript.evaluate(SEEN)
    await page.get_by_role("slider").press("Home")
    await page.get_by_role("button", name="Play", exact=True).click()
    await expect(transcript).to_have_attribute("data-seen", "12")


async def check_export(page, kind, start):
    async with page.expect_download() as started:
        await page.get_by_role("link", name=f"Export {kind}").click()
    download = await started.value
    assert download.suggested_filename == f"call.{kind.lower()}"
    assert (await asyncio.to_thread((await download.path()).read_text)).startswith(start)


async def check_search(page, expect):
    await page.get_by_role("searchbox").fill("daughter parc")
    await page.keyboard.press("Enter")
    hit = page.get_by_role("list", name="Search results").get_by_role("link")
    await expect(hit).to_have_count(1)
    await expect(hit.locator("mark")).to_have_text(["parcel", "daughter"])
    await pictured(page, "search")
    await hit.click()
    transcript = page.get_by_role("list", name="Transcript")
    await expect(transcript.locator("[aria-current=true]")).to_contain_text("Speaker 2")
    await expect(transcript.locator("mark")).to_have_text(["parcel", "daughter"])


async def test_upload_listen_search_export_and_delete(product, recording, folder):
    await product.worker(POSTHOUSE_PROCESS_SLOTS="1")
    admin = await product.as_("tenant-admin", "acme")
    async with opened(product) as (page, expect):
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto("/apps/calls/")
        await page.locator("input").first.fill(await product.key("tenant-admin", "acme"))
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("No calls yet")).to_be_visible()
        await page.set_input_files("#calls-files", recording)
        row = page.get_by_role("row").filter(has_text="call.wav")
        await expect(row.locator(".status")).to_have_text("Done")
        await pictured(page, "list")

        await row.get_by_role("link").click()
        await check_player(page, expect)
        for name, entries in (("Speakers", 2), ("Keywords", 5), ("Jobs", 4)):
            await expect(page.get_by_role("list", name=name).get_by_role("listitem")).to_have_count(entries)
        await pictured(page, "call")
        for kind, start in (("SRT", "1\n00:"), ("VTT", "WEBVTT"), ("JSON", "{")):
            await check_export(page, kind, start)
        await page.get_by_role("link", name="All calls").click()
        await check_search(page, expect)

        call_id = re.search("[0-9a-f-]{36}", page.url)[0]
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No calls yet")).to_be_visible()
        assert (await admin.get(f"/calls/{call_id}")).status_code == 404
        await page.goto(f"/apps/calls/calls/{call_id}")
        await expect(page.get_by_text("does not exist")).to_be_visible()
        assert problems == []
    await product.until_ended()
    assert [file for file in folder.folder.rglob("*") if file.is_file()] == []
