"""Tooltips: labels of the console are explained as in the glossary of the documentation."""

import re
from pathlib import Path

from playwright.async_api import expect

from posthouse.core.glossary import TERMS

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_terms_are_defined_as_in_the_documentation():
    documented = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE))
    assert {term: plain(documented.get(term, "")) for term in TERMS} == TERMS


def plain(text):
    """Without code marks, and without sentences that only link to another page."""
    return re.sub(r"\s*See \[[^]]*\]\([^)]*\)\.", "", text).replace("`", "").strip()


async def test_labels_explain_their_term(open_page, console):
    job = await console.enqueue("demo.greet", subject="parcel/1")
    async with open_page(f"jobs/{job}") as page:
        await expect(page.get_by_title("A named group of jobs that workers choose to serve.")).to_have_text(
            "Queue"
        )
