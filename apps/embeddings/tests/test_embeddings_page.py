"""The page of the application in a real browser: search as you type, and the figures."""

import re

import psycopg

from embeddings.db import sql
from embeddings.sample_rules import SampleRules
from posthouse import testing
from support.browsers import log_in, opened, take_pictures


async def test_similar_rules_appear_while_typing_beside_coverage_queue_and_savings(running_app):
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute(sql("demo_rules"), SampleRules().rules(20, 0.3) | {"tenant": "acme"})
    async with opened(running_app.url) as (page, expect):
        await log_in(page, "/apps/embeddings/", await running_app.key("tenant-viewer", "acme"))
        figures = page.get_by_label("State", exact=True)
        await expect(figures).to_contain_text("0 of 20")
        await testing.drain(running_app.app)
        await expect(figures).to_contain_text("20 of 20")
        await expect(figures).to_contain_text("14 texts computed")
        await expect(figures).to_contain_text("local/all-MiniLM-L6-v2/int8")
        await page.get_by_role("searchbox", name="Search rules by meaning").press_sequentially("passwords")
        hits = page.get_by_role("list", name="Similar rules").get_by_role("listitem")
        await expect(hits).to_have_count(10)
        await expect(hits.first.locator(".embeddings-score")).to_have_text(re.compile(r"0\.\d{3}"))
        await page.goto("/apps/embeddings/?q=passwords")  # as the demo links to it
        await expect(hits).to_have_count(10)
        await take_pictures(page, "embeddings")
