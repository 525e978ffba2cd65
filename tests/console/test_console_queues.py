"""Queues and limits: pausing, and changing a limit where it stands."""

import re

from playwright.async_api import expect

from support.accessibility import MARKUP, accessibility_violations, has_markup


def row(page, queue):
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=queue, exact=True))


def limit(page, name):
    return page.get_by_role("article", name=f"Limit {name}", exact=True)


async def test_a_queue_is_paused_fills_up_and_goes_on(open_page, console):
    async with open_page("queues") as page:
        await page.get_by_role("button", name="Pause other").click()
        await expect(row(page, "other")).to_contain_text("paused")
        await expect(row(page, "other")).to_contain_text("by key:")
        job_id = await console.enqueue("demo.own_queue")
        await expect(row(page, "other").locator("[data-label=Ready]")).to_have_text("1")
        await page.get_by_role("button", name="Undo").click()
        await console.until(job_id, "succeeded")
        await expect(row(page, "other").locator("[data-label=Ready]")).to_have_text("0")
        await expect(page.get_by_role("button", name="Pause other")).to_be_visible()


async def test_a_limit_is_edited_in_place_and_taken_back(open_page, console):
    await console.api("PUT", "/admin/limits/horses", {"kinds": ["demo.wait"], "max_running": 5})
    async with open_page("queues") as page:
        shown = limit(page, "horses")
        await expect(shown).to_contain_text("0 of 5")
        await shown.get_by_role("button", name="Edit").click()
        await shown.get_by_label("Max running").fill("7")
        await shown.get_by_label("Starts per second").fill("2.5")
        await shown.get_by_role("button", name="Save").click()
        await expect(shown).to_contain_text("0 of 7")
        await expect(shown).to_contain_text("2.5 per second")
        await page.get_by_role("button", name="Undo").click()
        await expect(shown).to_contain_text("0 of 5")
        assert (await console.api("GET", "/admin/limits/horses"))["limit"]["rate"] is None


async def test_what_the_api_refuses_is_said_in_the_form(open_page):
    async with open_page("queues", refused=[422]) as page:
        await page.get_by_role("button", name="New limit").click()
        form = page.get_by_role("form", name="New limit")
        await form.get_by_label("Name").fill("nothing")
        await form.get_by_role("button", name="Create limit").click()
        await expect(form.get_by_role("alert")).to_be_visible()


async def test_a_limit_is_made_and_deleted_and_brought_back(open_page, console):
    async with open_page("queues") as page:
        await page.get_by_role("button", name="New limit").click()
        form = page.get_by_role("form", name="New limit")
        await form.get_by_label("Name").fill("coaches")
        await form.get_by_label("Max running").fill("3")
        await form.get_by_label("Scope").select_option("each tenant")
        await form.get_by_role("button", name="Create limit").click()
        await expect(limit(page, "coaches")).to_contain_text("0 of 3")
        await page.get_by_role("button", name="Delete coaches").click()
        await page.get_by_role("button", name="Delete limit").click()
        await expect(limit(page, "coaches")).to_have_count(0)
        await (
            page.get_by_role("status")
            .filter(has_text="deleted")
            .get_by_role("button", name="Undo")
            .last.click()
        )
        await expect(limit(page, "coaches")).to_contain_text("each tenant")


async def test_a_limit_shows_whose_slots_are_full(open_page, console):
    await console.api(
        "PUT", "/admin/limits/saddles", {"kinds": ["demo.wait"], "per": "tenant", "max_running": 1}
    )
    job_id = await console.enqueue("demo.wait", {"gate": "saddle"}, tenant="jockey")
    await console.until(job_id, "running")
    async with open_page("queues") as page:
        await limit(page, "saddles").get_by_role("button", name="1 tenant").click()
        await expect(page).to_have_url(re.compile("limit=saddles"))
        await expect(limit(page, "saddles").get_by_role("row").filter(has_text="jockey")).to_contain_text(
            "1 of 1"
        )
        console.gate("saddle").set()
        await expect(limit(page, "saddles")).to_contain_text("0 of 1")
    await console.api("DELETE", "/admin/limits/saddles")


async def test_viewers_see_depth_and_no_buttons(open_page, console):
    async with open_page("queues", role="tenant-viewer", tenant="passenger") as page:
        await expect(row(page, "other")).to_be_visible()
        assert await page.get_by_role("button", name="Pause").count() == 0
        assert await page.get_by_role("heading", name="Limits", exact=True).count() == 0


async def test_names_of_queues_and_limits_are_text(open_page, console):
    await console.enqueue("demo.greet", queue=MARKUP, delay_seconds=3600)
    await console.api("PUT", "/admin/limits/inert", {"kinds": [MARKUP], "max_running": 1})
    async with open_page("queues") as page:
        await expect(row(page, MARKUP)).to_be_visible()
        await expect(limit(page, "inert")).to_contain_text(MARKUP)
        assert not await has_markup(page)


async def test_the_queues_and_limits_pages_are_accessible(open_page, console):
    await console.api("PUT", "/admin/limits/open", {"rate": 5, "burst": 10, "per": "tenant"})
    async with open_page("queues") as page:
        await limit(page, "open").get_by_role("button", name="Edit").click()
        await expect(page.get_by_label("Max running")).to_be_focused()
        assert await accessibility_violations(page) == []
