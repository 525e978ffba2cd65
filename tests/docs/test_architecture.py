"""docs/architecture.md names files and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

from support.doc_pages import ROOT, blocks

PAGE = ROOT / "docs" / "architecture.md"
PATHS = ("job", "heartbeat", "cron tick", "live message")
TABLES = {"ready", "waiting", "running", "history"}
SOURCE = re.compile(r"`((?:src|tests|tools)/[^`]+)`")
NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)?)`")
SQL_FUNCTION = re.compile(r"^create or replace function posthouse\.(\w+)", re.MULTILINE)
JS_NAME = re.compile(r"^(?:export )?(?:async )?(?:function|const|class) (\w+)", re.MULTILINE)


def paragraphs():
    """The paragraphs and list items outside blocks, each in one line."""
    text = PAGE.read_text()
    for block in blocks(PAGE):
        text = text.replace(block.text, "")
    return [" ".join(part.split()) for part in re.split(r"\n\n|\n(?=\d+\. )", text)]


def with_files():
    found = {part: SOURCE.findall(part) for part in paragraphs()}
    return {part: files for part, files in found.items() if files}


def defined_in(file: Path):
    """The names that a file defines; methods as Class.method."""
    text = file.read_text()
    if file.suffix == ".sql":
        return set(SQL_FUNCTION.findall(text))
    if file.suffix == ".js":
        return set(JS_NAME.findall(text))
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{item.name}" for item in node.body if hasattr(item, "name")}
        names |= {node.name} if hasattr(node, "name") else set()
    return names


def test_each_file_exists():
    gone = sorted({file for files in with_files().values() for file in files if not (ROOT / file).exists()})
    assert gone == [], "docs/architecture.md names files that were moved or removed; correct the page"


def test_each_function_is_defined_in_a_file_of_its_step():
    strange = []
    for part, files in with_files().items():
        there = set().union(*(defined_in(ROOT / file) for file in files if (ROOT / file).is_file()))
        strange += [(name, files) for name in NAME.findall(part) if name not in there | TABLES]
    assert strange == [], "docs/architecture.md names functions that were renamed or moved; correct the page"


@pytest.mark.parametrize("path", PATHS)
def test_each_path_is_a_list_of_files_and_functions(path):
    section = PAGE.read_text().partition(f"## The path of a {path}\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. (.+)", section, re.MULTILINE)
    assert len(steps) > 3
    assert [step for step in steps if not SOURCE.search(step)] == []


def test_the_page_is_a_page_long():
    assert len(PAGE.read_text().splitlines()) <= 130
