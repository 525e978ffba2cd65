"""docs/llms.txt follows the llms.txt convention and lists every page."""

import re

from support.doc_pages import ROOT, name_of, pages

FILE = ROOT / "docs" / "llms.txt"
LINES = FILE.read_text().splitlines()
ENTRY = re.compile(r"- \[([^\]]+)\]\(([^)]+)\): (.+)")


def entries():
    return [match for line in LINES if (match := ENTRY.fullmatch(line))]


def test_it_has_a_title_a_summary_and_sections_of_described_links():
    assert LINES[0].startswith("# ")
    assert [line for line in LINES if line.startswith("# ")] == LINES[:1]
    assert next(line for line in LINES[1:] if line).startswith("> ")
    first = next(number for number, line in enumerate(LINES) if line.startswith("## "))
    strange = [
        line for line in LINES[first:] if line and not line.startswith("## ") and not ENTRY.fullmatch(line)
    ]
    assert strange == []


def test_every_link_leads_to_a_file():
    assert [entry[2] for entry in entries() if not (FILE.parent / entry[2]).is_file()] == []


def test_every_page_is_listed_once():
    listed = sorted(name_of((FILE.parent / entry[2]).resolve()) for entry in entries())
    assert listed == sorted(name_of(page) for page in pages())
