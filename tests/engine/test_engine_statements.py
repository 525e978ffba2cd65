"""The named statements in storage/sql: each can be found, has a purpose, and is used."""

import re
from importlib.resources import files
from pathlib import Path

import posthouse
from posthouse.storage.queries import query, statements

SOURCE = Path(posthouse.__file__).parent
ROOT = Path(__file__).parents[2]
USE = re.compile(r'\b(?:query|fetch|fetch_\w+)\(\s*(?:[\w.]+,\s*)?"(\w+)"')


def text_of(*folders):
    return "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))


def test_each_statement_has_a_purpose_and_a_name_of_its_own():
    marks = sum(
        file.read_text().count("\n-- name: ") for file in (files("posthouse.storage") / "sql").iterdir()
    )
    assert len(statements()) == marks
    assert [name for name in statements() if not query(name).startswith("-- ")] == []


def test_each_statement_is_used_and_each_name_exists():
    texts = set(re.findall(r'"(\w+)"', text_of(SOURCE, ROOT / "tests", ROOT / "bench")))
    assert statements().keys() - texts == set(), "unused"
    assert set(USE.findall(text_of(SOURCE))) - statements().keys() == set(), "unknown"
