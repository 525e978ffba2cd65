"""The console in a real browser, on a real server with a worker and a keeper.

All of it runs in one loop for the whole run: a browser takes seconds to start. Tests keep apart by names of
kinds, queues and tenants of their own.
"""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction

import pytest
import pytest_asyncio
from console_house import House

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the lightest."""
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "console" and iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def house(databases):
    with databases.one() as url:
        async with House(url) as house:
            yield house


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium-headless-shell")
    playwright = pytest.importorskip("playwright.async_api")
    playwright.expect.set_options(timeout=60_000)
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def desk(house, browser):
    """Where pages are opened one after the other: files that one page has fetched are there for the next."""
    context = await browser.new_context(base_url=f"{house.url}/console/")
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context
    await context.close()


@pytest.fixture
def look(house, browser, desk):
    """Opens a page of the console as somebody: ``async with look("jobs", role="tenant-viewer") as page``.
    ``before``: what is done with requests to addresses, as Playwright's ``route`` takes it.

    Whatever the browser complains of (scripts that fail, the policy that forbids) fails the test.
    """

    @asynccontextmanager
    async def look(
        path="",
        *,
        role="super-admin",
        tenant=None,
        width=1440,
        refused=(),
        before=None,
        theme="light",
        zone=None,
    ):
        context = await browser.new_context(timezone_id=zone) if zone else desk
        await context.clear_cookies()
        if role is not None:
            await context.add_cookies([await house.cookie(role, tenant)])
        page = await context.new_page()
        page.set_default_timeout(60_000)
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=theme)
        for address, handler in (before or {}).items():
            await page.route(address, handler)
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        await page.goto(f"{house.url}/console/{path}")
        try:
            yield page
        finally:
            await forget(page)
            if zone:
                await context.close()
        unexpected = [text for text in complaints if not any(str(code) in text for code in refused)]
        assert unexpected == []

    return look


async def forget(page):
    """Closes it. What it kept in the browser is not there for the next one."""
    await page.evaluate("localStorage.clear(), sessionStorage.clear()")
    await page.close()
