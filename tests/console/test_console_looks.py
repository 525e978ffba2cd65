"""What all pages share: where a dialog begins, and that nothing is out of sight on small screens."""

from playwright.async_api import expect


async def test_a_dialog_begins_in_its_first_field(look):
    async with look("jobs") as page:
        await page.get_by_role("button", name="Enqueue").click()
        await expect(page.get_by_role("dialog").get_by_label("Kind")).to_be_focused()


async def test_a_dialog_never_begins_at_what_destroys(look, house):
    await house.api("PUT", "/admin/limits/bridge", {"kinds": ["letters.greet"], "max_running": 1})
    async with look("queues") as page:
        await page.get_by_role("button", name="Delete bridge").click()
        await expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(page.get_by_text("bridge", exact=True)).to_be_visible()


async def test_what_a_row_can_be_told_to_do_stays_in_sight(look, house):
    await house.api("POST", "/admin/tenants", {"id": "small", "label": "Carriers of the Long Northern Road"})
    await house.until_triggered()
    async with look("queues", width=720) as page:
        await expect(page.get_by_role("button", name="Pause ").first).to_be_in_viewport(ratio=1)
        await page.goto("triggers")
        await expect(page.get_by_role("switch").first).to_be_in_viewport(ratio=1)
        await page.goto("operator")
        await expect(page.get_by_role("button", name="Delete small")).to_be_in_viewport(ratio=1)


async def test_on_a_phone_the_names_of_pages_are_whole(look):
    async with look("queues", width=390) as page:
        title = page.get_by_role("heading", name="Queues and limits", level=1)
        await expect(title).to_be_visible()
        assert await title.evaluate("(shown) => shown.scrollWidth <= shown.clientWidth")


async def test_a_login_fits_on_a_phone(look):
    async with look(role=None, width=390, refused=[401]) as page:
        await expect(page.get_by_label("Key")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_commands_that_empty_pages_teach_fit_on_a_phone(look):
    async with look(width=390) as page:
        for path in ("workers?show=keys", "failures?show=retries"):
            await page.goto(path)
            await expect(page.locator(".skeleton")).to_have_count(0)
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path
