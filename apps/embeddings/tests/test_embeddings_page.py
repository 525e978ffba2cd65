"""The page of the application in a real browser: search as you type, and the figures."""

import os
import re
import shutil
from pathlib import Path

import psycopg
import pytest

from embeddings.db import sql
from embeddings.sample_rules import SampleRules
from posthouse import testing
from waiting import WAIT_SECONDS

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
PICTURES = os.environ.get("EMBEDDINGS_PICTURES")
"""Folder for screenshots, for people who change the page."""


@pytest.fixture
async def page(product):
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium-headless-shell")
    playwright = pytest.importorskip("playwright.async_api")
    playwright.expect.set_options(timeout=1000 * WAIT_SECONDS)
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        page = await browser.new_page(base_url=product.url, reduced_motion="reduce")
        page.set_default_timeout(1000 * WAIT_SECONDS)
        yield page
        await browser.close()


async def test_similar_rules_appear_while_typing_beside_coverage_queue_and_savings(product, page):
    from playwright.async_api import expect  # noqa: PLC0415 - optional

    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    with psycopg.connect(product.settings.database_url) as db:
        db.execute(sql("demo_rules"), SampleRules().rules(20, 0.3) | {"tenant": "acme"})
    await page.goto("/apps/embeddings/")
    await page.locator("input").first.fill(await product.key("tenant-viewer", "acme"))
    await page.keyboard.press("Enter")
    figures = page.get_by_label("State", exact=True)
    await expect(figures).to_contain_text("0 of 20")
    await testing.drain(product.app)
    await expect(figures).to_contain_text("20 of 20")
    await expect(figures).to_contain_text("14 texts were computed.")
    await expect(figures).to_contain_text("local/all-MiniLM-L6-v2/int8")
    await page.get_by_role("searchbox", name="Search rules by meaning").press_sequentially("passwords")
    hits = page.get_by_role("list", name="Similar rules").get_by_role("listitem")
    await expect(hits).to_have_count(10)
    await expect(hits.first.locator(".embeddings-score")).to_have_text(re.compile(r"0\.\d{3}"))
    await page.goto("/apps/embeddings/?q=passwords")  # as the demo links to it
    await expect(hits).to_have_count(10)
    if PICTURES is not None:
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            for width in (1200, 390):
                await page.set_viewport_size({"width": width, "height": 800})
                await page.screenshot(path=Path(PICTURES) / f"embeddings-{theme}-{width}.png")
    assert problems == []
