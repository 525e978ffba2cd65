"""What all pages share: the initial focus of dialogs, and that nothing is cut off on small screens."""

from playwright.async_api import expect


async def test_a_dialog_begins_in_its_first_field(open_page):
    async with open_page("jobs") as page:
        await page.get_by_role("button", name="Enqueue").click()
        await expect(page.get_by_role("dialog").get_by_label("Kind")).to_be_focused()


async def test_a_dialog_never_begins_at_what_destroys(open_page, console):
    await console.api("PUT", "/admin/limits/bridge", {"kinds": ["demo.greet"], "max_running": 1})
    async with open_page("queues") as page:
        await page.get_by_role("button", name="Delete bridge").click()
        await expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(page.get_by_text("bridge", exact=True)).to_be_visible()


async def test_row_actions_stay_visible_on_narrow_screens(open_page, console):
    await console.api(
        "POST", "/admin/tenants", {"id": "small", "label": "Carriers of the Long Northern Road"}
    )
    await console.until_triggered()
    async with open_page("queues", width=720) as page:
        await expect(page.get_by_role("button", name="Pause ").first).to_be_in_viewport(ratio=1)
        await page.goto("triggers")
        await expect(page.get_by_role("switch").first).to_be_in_viewport(ratio=1)
        await page.goto("operator")
        await expect(page.get_by_role("button", name="Delete small")).to_be_in_viewport(ratio=1)


FONTS = {
    "wide": ":root { --font: 'DejaVu Sans', sans-serif } * { letter-spacing: 0.12em !important }",
    "narrow": ":root { --font: 'Liberation Sans Narrow'} * { letter-spacing: -0.05em !important }",
    "DejaVu Sans": ":root { --font: 'DejaVu Sans' }",
    "Liberation Sans": ":root { --font: 'Liberation Sans' }",
    "monospace": ":root { --font: monospace }",
}
"""The console uses the sans-serif font of the machine. Letter spacing makes the first font wider and the
second narrower than any of them, independent of the installed fonts."""
PAGES = {
    "": "Overview", "jobs": "Jobs", "failures": "Failures", "workers": "Workers",
    "queues": "Queues and limits", "triggers": "Triggers", "definitions": "Definitions",
    "operator": "Operator",
}  # fmt: skip
SET_FONT = """async (css) => {
    const sheet = new CSSStyleSheet()
    sheet.replaceSync(css)
    document.adoptedStyleSheets = [sheet]
    await document.fonts.ready
}"""
CUT = "(shown) => shown.scrollWidth > shown.clientWidth || shown.scrollHeight > shown.clientHeight"


async def test_on_a_phone_the_names_of_pages_are_whole(open_page, console):
    """In every font, and beside the choice of a tenant, which is shown as soon as there are two tenants."""
    tenants = [tenant["id"] for tenant in await console.api("GET", "/admin/tenants")]
    for tenant in {"phone", "phone-2"} - set(tenants):
        await console.api(
            "POST", "/admin/tenants", {"id": tenant, "label": "Carriers of the Long Southern Road"}
        )
    async with open_page("jobs", width=390) as page:
        for path, name in PAGES.items():
            await page.goto(f"{console.url}/console/{path}")
            title = page.get_by_role("heading", name=name, level=1)
            await expect(title).to_be_visible()
            await expect(page.locator(".tenant select")).to_be_visible()
            await expect(page.locator(".skeleton")).to_have_count(0)
            for font, css in FONTS.items():
                await page.evaluate(SET_FONT, css)
                assert not await title.evaluate(CUT), (name, font)
                assert await page.evaluate("document.documentElement.scrollWidth") <= 390, (name, font)


async def test_a_login_fits_on_a_phone(open_page):
    async with open_page(role=None, width=390, refused=[401]) as page:
        await expect(page.get_by_label("Key")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_commands_that_empty_pages_teach_fit_on_a_phone(open_page):
    async with open_page(width=390) as page:
        for path in ("workers?show=keys", "failures?show=retries"):
            await page.goto(path)
            await expect(page.locator(".skeleton")).to_have_count(0)
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path
