"""CONTRIBUTING names files, packages and make targets that exist."""

import re

from support.doc_pages import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_each_path_exists():
    paths = set(re.findall(r"`([\w./-]+/[\w./-]+)`", PAGE))
    assert {"src/posthouse/storage/sql", "tests/docs"} <= paths
    bases = (ROOT, ROOT / "src" / "posthouse" / "storage")
    placeholders = {"src/posthouse/storage/tables/NNNN_name.sql"}
    gone = [path for path in paths - placeholders if not any((base / path).exists() for base in bases)]
    assert gone == [], "CONTRIBUTING.md names paths that were moved or removed; correct the page"


def test_the_packages_are_those_of_the_source():
    rows = PAGE.partition("## Packages\n")[2].partition("\n## ")[0].splitlines()
    listed = {
        name for row in rows if row.startswith("| `") for name in re.findall(r"`([\w.]+)`", row.split("|")[1])
    }
    source = {
        path.name
        for path in (ROOT / "src" / "posthouse").iterdir()
        if not path.name.startswith("_") and (path.suffix == ".py" or any(path.rglob("*.py")))
    }
    assert listed == source, "the table of packages in CONTRIBUTING.md is not that of src/posthouse"


def test_each_make_target_exists():
    assert set(re.findall(r"`make ([a-z]+)", PAGE)) - TARGETS == set()


def test_the_workflow_runs_the_two_commands_of_the_readme():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert set(re.findall(r"\bmake ([a-z]+)(?= >|$)", workflow, re.MULTILINE)) == {"up", "test"}
