"""Whether a page can be used by everybody."""

from axe_playwright_python.async_playwright import Axe


async def hindrances(page):
    """What axe finds serious or critical in a page: rules, and where."""
    found = (await Axe().run(page)).response["violations"]
    grave = [each for each in found if each["impact"] in {"serious", "critical"}]
    return [(each["id"], each["nodes"][0]["html"]) for each in grave]
