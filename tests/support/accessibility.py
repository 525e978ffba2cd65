"""Checks for every page: accessibility, and that no data is interpreted as markup."""

from axe_playwright_python.async_playwright import Axe

MARKUP = "<img src=x onerror=\"document.title='broken'\">"


AXE = Axe()
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
CONTRAST = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}


EVERYTHING = {"resultTypes": ["violations"]}


async def accessibility_violations(page, options=None):
    """Return the serious accessibility violations of the page in both themes, which differ in colors only."""
    await page.emulate_media(color_scheme="light")
    found = await scan(page, options)
    await page.emulate_media(color_scheme="dark")
    return found + await scan(page, CONTRAST)


async def scan(page, options=None):
    """Return the serious violations. The checker, half a megabyte of script, is loaded once for each page."""
    if not await page.evaluate("Boolean(window.axe)"):
        await page.evaluate(AXE.axe_script)
    run = "async options => (await axe.run(options)).violations"
    found = await page.evaluate(run, RULES if options is None else options)
    return [
        (each["id"], [node["html"] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in {"serious", "critical"}
    ]


async def has_markup(page):
    return await page.locator("img[src=x]").count() > 0 or await page.title() == "broken"
