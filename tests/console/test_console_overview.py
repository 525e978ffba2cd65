"""The overview: how it goes, at a glance and as it changes."""

import asyncio

from playwright.async_api import expect

from support.accessibility import MARKUP, accessibility_violations, has_markup
from support.waiting import WAIT_SECONDS


def figure(page, name):
    return page.locator(".tile").filter(has=page.get_by_text(name, exact=True)).locator("dd")


async def test_figures_move_as_jobs_come_and_go(open_page, console):
    async with open_page(role="tenant-admin", tenant="overview-tenant") as page:
        await expect(figure(page, "Running")).to_have_text("0")
        await expect(page.get_by_text("No failures")).to_be_visible()
        await console.enqueue("demo.wait", {"gate": "overview-tenant"}, tenant="overview-tenant")
        await expect(figure(page, "Running")).to_have_text("1")
        await console.enqueue("demo.greet", tenant="overview-tenant", delay_seconds=3600)
        await expect(figure(page, "Queued")).to_have_text("1")
        await expect(page.get_by_text("1 scheduled")).to_be_visible()
        console.gate("overview-tenant").set()
        await expect(figure(page, "Running")).to_have_text("0")


async def test_a_figure_leads_to_its_jobs(open_page, console):
    job = await console.enqueue("demo.wait", {"gate": "lead"}, tenant="lead", subject="the lead horse")
    await console.until(job, "running")
    async with open_page(role="tenant-viewer", tenant="lead") as page:
        await figure(page, "Running").click()
        await expect(page.get_by_role("row").filter(has_text="the lead horse")).to_be_visible()
        assert "status%3Arunning" in page.url or "status:running" in page.url
    console.gate("lead").set()


async def test_there_are_cards_for_queued_running_failed_and_dead_letter_jobs(open_page, console):
    lost = await console.enqueue("demo.fail", {"item": "x", "text": "gone"}, tenant="carded")
    await console.until(lost, "dead_letter")
    async with open_page(role="tenant-viewer", tenant="carded") as page:
        for name, number in (("Queued", "0"), ("Running", "0"), ("Failed", "0"), ("Dead letter", "1")):
            await expect(figure(page, name)).to_have_text(number)
        await figure(page, "Dead letter").click()
        await expect(page.get_by_role("row").filter(has_text="demo.fail")).to_be_visible()


async def test_the_range_of_time_is_part_of_the_address(open_page, console):
    async with open_page(role="tenant-admin", tenant="overview-tenant") as page:
        ranges = page.get_by_role("group", name="Time range")
        await expect(ranges.get_by_role("button", pressed=True)).to_have_text("1h")
        await ranges.get_by_role("button", name="24h").click()
        await expect(page.get_by_text("in the last 24 hours").first).to_be_visible()
        await page.reload()
        await expect(ranges.get_by_role("button", pressed=True)).to_have_text("24h")


async def test_every_range_of_time_is_drawn(open_page, console):
    await console.until(await console.enqueue("demo.greet", tenant="overview-tenant"), "succeeded")
    async with open_page(role="tenant-admin", tenant="overview-tenant") as page:
        ranges = {"15m": "15 minutes", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "1h": "hour"}
        for name, words in ranges.items():
            await page.get_by_role("group", name="Time range").get_by_role("button", name=name).click()
            await expect(page.get_by_text(f"in the last {words}").first).to_be_visible()
            await expect(page.locator(".chart")).to_have_count(2)


async def test_a_fault_leads_to_its_page_whosever_it_is(open_page, console):
    letter = await console.enqueue("demo.fail", {"item": "x", "text": MARKUP}, tenant="overseen")
    await console.until(letter, "dead_letter")
    async with open_page() as page:
        fault = page.get_by_role("link").filter(has_text=MARKUP).first
        await expect(fault).to_be_visible()
        assert not await has_markup(page)
        await fault.click()
        await expect(page.get_by_label("Traceback", exact=True)).to_contain_text("ConnectionError")


async def test_alerts_that_say_the_same_are_one_line(open_page, console):
    for letter in ("one", "other"):
        lost = await console.enqueue("demo.fail", {"item": letter}, tenant="alarmed")
        await console.until(lost, "dead_letter")
    async with asyncio.timeout(WAIT_SECONDS):
        while len((await console.api("GET", "/alerts?tenant=alarmed"))["items"]) < 2:
            await asyncio.sleep(0.05)
    async with open_page(role="tenant-admin", tenant="alarmed") as page:
        alert = page.get_by_role("listitem").filter(has_text="job max retries exceeded")
        await expect(alert).to_have_count(1)
        await expect(alert).to_contain_text("2 similar in the last 24 hours")
        await alert.get_by_role("link").click()
        await expect(page.get_by_role("heading", name="demo.fail")).to_be_visible()


STATUS_TEXTS = {"ok": "healthy", "warning": "warnings", "critical": "critical"}


async def test_operators_see_how_the_database_is(open_page, console):
    found = await console.api("GET", "/admin/doctor")
    async with open_page() as page:
        await expect(figure(page, "Health")).to_have_text(STATUS_TEXTS[found["status"]])
        await figure(page, "Health").click()
        await expect(page.get_by_role("button", name="Run checks again")).to_be_visible()
    async with open_page(role="tenant-viewer", tenant="overview-tenant") as page:
        await expect(figure(page, "Workers")).to_be_visible()
        assert await page.get_by_text("Health", exact=True).count() == 0


async def test_the_overview_is_accessible_on_a_phone_too(open_page, console):
    await console.until(await console.enqueue("demo.greet"), "succeeded")
    async with open_page(width=390) as page:
        await expect(figure(page, "Health")).to_be_visible()
        await expect(page.get_by_role("link").filter(has_text="default").first).to_be_visible()
        assert await accessibility_violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
