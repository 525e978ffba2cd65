"""The guides of the applications: their excerpts are in the sources, and each application has one."""

import re

import pytest

from support.doc_pages import ROOT, blocks, name_of

GUIDES = sorted((ROOT / "docs" / "apps").glob("*.md"))
SOURCE = re.compile(r"from (apps/\S+)\.")


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_every_excerpt_is_in_its_source(page):
    for block in blocks(page):
        if block.language in {"python", "sql", "js", "toml"}:
            source = SOURCE.fullmatch(block.not_run)
            assert source, f"{name_of(page)}:{block.line} does not say which file it is from"
            text = (ROOT / source[1]).read_text()
            assert block.text in text, f"{name_of(page)}:{block.line} is not in {source[1]}"


def test_each_application_has_a_guide():
    applications = {path.parent.name for path in (ROOT / "apps").glob("*/*/demo.py")}
    assert {page.stem for page in GUIDES} == {"README", *applications}
