"""The page of the application in a real browser: upload, follow the player, search, export, delete."""

import asyncio
import re

from support.browsers import log_in, opened, take_pictures

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
    await take_pictures(page, "search")
    await hit.click()
    transcript = page.get_by_role("list", name="Transcript")
    await expect(transcript.locator("[aria-current=true]")).to_contain_text("Speaker 2")
    await expect(transcript.locator("mark")).to_have_text(["parcel", "daughter"])


async def test_upload_listen_search_export_and_delete(running_app, recording, folder):
    async with opened(running_app.url, "--autoplay-policy=no-user-gesture-required") as (page, expect):
        await running_app.worker(POSTHOUSE_PROCESS_SLOTS="1")
        admin = await running_app.client_for("tenant-admin", "acme")
        await log_in(page, "/apps/calls/", await running_app.key("tenant-admin", "acme"))
        await expect(page.get_by_text("No calls yet")).to_be_visible()
        await page.set_input_files("#calls-files", recording)
        row = page.get_by_role("row").filter(has_text="call.wav")
        await expect(row.locator(".status")).to_have_text("Done")
        await take_pictures(page, "list")

        await row.get_by_role("link").click()
        await check_player(page, expect)
        for name, entries in (("Speakers", 2), ("Keywords", 5), ("Jobs", 4)):
            await expect(page.get_by_role("list", name=name).get_by_role("listitem")).to_have_count(entries)
        await take_pictures(page, "call")
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
    await running_app.until_ended()
    assert [file for file in folder.folder.rglob("*") if file.is_file()] == []
