"""docs/seeds.md: each requirement names its state, its code and the test that shows it."""

import re
from functools import cache

import pytest

from support.doc_pages import ROOT

PAGE = ROOT / "docs" / "seeds.md"
HEAD = ["requirement", "state", "code", "test", "difference"]
STATES = {"done", "differs", "not done"}
_CODE = re.compile(r"`([^`]+)`")
_TEST = re.compile(r"(?:tests|apps)/[\w/]+\.py::test_\w+")


def rows():
    """The rows of all tables: section, number of the line, cells."""
    section = ""
    for number, line in enumerate(PAGE.read_text().splitlines(), start=1):
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if not line.startswith("|") or set(line) <= set("|- "):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells != HEAD:
            yield section, number, cells


ROWS = list(rows())


@cache
def source(path):
    return (ROOT / path).read_text()


def exists(test):
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and re.search(rf"^(?:async )?def {name}\b", source(path), re.MULTILINE)


def wrong(check):
    """The lines of the rows that fail a check."""
    return [f"line {number}: {cells[0]}" for _, number, cells in ROWS if not check(*cells)]


def test_there_is_a_section_for_each_seed():
    found = re.findall(r"^## Seed (\d{3}): ", PAGE.read_text(), re.MULTILINE)
    assert found == ["000", "001", "002", "003", "004"]


def test_each_row_has_all_cells_and_a_known_state():
    assert [number for _, number, cells in ROWS if len(cells) != len(HEAD)] == []
    assert wrong(lambda _what, state, *_: state in STATES) == []


def test_each_file_that_is_named_exists():
    files = {name for _, _, cells in ROWS for name in _CODE.findall(cells[2])}
    assert sorted(name for name in files if not (ROOT / name).exists()) == []


def test_each_row_names_its_code_unless_nothing_was_done():
    assert wrong(lambda _what, state, code, *_: _CODE.search(code) or state == "not done") == []


def test_each_test_that_is_named_exists():
    tests = {name for _, _, cells in ROWS for name in _CODE.findall(cells[3])}
    assert sorted(name for name in tests if not (_TEST.fullmatch(name) and exists(name))) == []


def test_each_row_names_a_test_or_the_reason_why_it_was_not_done():
    assert (
        wrong(lambda _what, state, _code, test, why: _CODE.search(test) or (state == "not done" and why))
        == []
    )


def test_each_difference_has_a_reason():
    assert wrong(lambda _what, state, _code, _test, why: why or state == "done") == []


@pytest.mark.parametrize("page", ["README.md", "docs/README.md", "docs/llms.txt"])
def test_readers_are_led_to_the_page(page):
    assert "seeds.md" in (ROOT / page).read_text()
