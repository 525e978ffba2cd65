"""Tests of the console in a real browser, on a real server with a worker and a keeper.

All tests share one event loop, server and browser, because a browser takes seconds to start. They are
isolated by separate kinds, queues and tenants.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from inspect import iscoroutinefunction

import pytest
import pytest_asyncio

from support.browsers import launched
from support.console import ConsoleServer
from support.waiting import WAIT_SECONDS


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "console" and iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def console(databases):
    with databases.one() as url:
        async with ConsoleServer(url) as console:
            yield console


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser_context(console, browser):
    """The browser context that all pages share, so that static files are cached."""
    context = await browser.new_context(base_url=f"{console.url}/console/", reduced_motion="reduce")
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context
    await context.close()


@pytest.fixture
def open_page(console, browser, browser_context):
    """Open a page of the console with a role: ``async with look("jobs", role="tenant-viewer") as page``.
    ``before``: handlers of requests by URL, as for Playwright's ``route``.

    Script errors and violations of the content security policy fail the test.
    """

    @asynccontextmanager
    async def open_page(
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
        context = await browser.new_context(timezone_id=zone) if zone else browser_context
        await context.clear_cookies()
        if role is not None:
            await context.add_cookies([await console.cookie(role, tenant)])
        page = await context.new_page()
        page.set_default_timeout(1000 * WAIT_SECONDS)
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=theme)
        for address, handler in (before or {}).items():
            await page.route(address, handler)
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        await page.goto(f"{console.url}/console/{path}")
        try:
            yield page
        finally:
            await close_page(page)
            if zone:
                await context.close()
        unexpected = [text for text in complaints if not any(str(code) in text for code in refused)]
        assert unexpected == []

    return open_page


async def close_page(page):
    """Close the page and clear its storage."""
    await page.evaluate("localStorage.clear(), sessionStorage.clear()")
    await page.close()
