"""A real browser for tests of pages."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.waiting import WAIT_SECONDS

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
PICTURES = os.environ.get("PAGE_PICTURES")
"""Folder for screenshots, for people who change a page."""
LOOKS = (("light", 1280), ("dark", 1280), ("light", 390))


def playwright(api="async_api"):
    """The module of Playwright. Skips the test where it or the browser is missing."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium-headless-shell")
    module = pytest.importorskip(f"playwright.{api}")
    module.expect.set_options(timeout=1000 * WAIT_SECONDS)
    return module


@asynccontextmanager
async def launched(*arguments):
    async with playwright().async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, *arguments])
        yield browser
        await browser.close()


@asynccontextmanager
async def opened(url, *arguments):
    """A page, with ``expect`` of Playwright. Its scripts must not raise."""
    errors = []
    async with launched(*arguments) as browser:
        page = await browser.new_page(base_url=url, reduced_motion="reduce")
        page.set_default_timeout(1000 * WAIT_SECONDS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page, playwright().expect
    assert errors == []


async def log_in(page, path, key):
    """Open the page of an application, which asks for a credential."""
    await page.goto(path)
    await page.locator("input").first.fill(key)
    await page.keyboard.press("Enter")


async def take_pictures(page, name):
    if PICTURES is None:
        return
    for theme, width in LOOKS:
        await page.emulate_media(color_scheme=theme)
        await page.set_viewport_size({"width": width, "height": 850})
        await page.screenshot(path=Path(PICTURES) / f"{name}-{theme}-{width}.png", full_page=width == 390)
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1280, "height": 850})
