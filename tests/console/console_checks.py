"""Checks for every page: accessibility, and that no data is interpreted as markup."""

from axe_playwright_python.async_playwright import Axe

MARKUP = "<img src=x onerror=\"document.title='broken'\">"


RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
CONTRAST = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}


async def hindrances(page):
    """Return the serious accessibility violations of the page in both themes."""
    await page.emulate_media(color_scheme="light")
    found = await scan(page)
    await page.emulate_media(color_scheme="dark")
    return found + await scan(page, CONTRAST)


async def scan(page, options=None):
    found = (await Axe().run(page, options=options or RULES)).response["violations"]
    return [
        (each["id"], [node["html"] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in {"serious", "critical"}
    ]


async def has_markup(page):
    return await page.locator("img[src=x]").count() > 0 or await page.title() == "broken"
