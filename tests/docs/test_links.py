"""Links between pages lead somewhere."""

import ast
import re

import pytest

from support.doc_pages import ROOT, anchors, links, name_of, pages, titled_links


def broken(page):
    for line, target in links(page):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        goal = (page.parent / name).resolve() if name else page
        if not goal.exists():
            yield f"line {line}: there is no {target}"
        elif anchor and anchor not in anchors(goal):
            yield f"line {line}: {name_of(goal)} has no heading {anchor}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page):
    assert list(broken(page)) == []


def test_every_page_can_be_reached_from_the_readme():
    seen, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in seen:
            continue
        seen.add(page)
        goals = {(page.parent / target.partition("#")[0]).resolve() for _, target in links(page)}
        left += [goal for goal in goals if goal.suffix == ".md" and goal.is_file()]
    assert {name_of(page) for page in pages()} - {name_of(page) for page in seen} == set()


def test_no_page_holds_a_path_of_the_machine_it_was_written_on():
    for page in pages():
        text = page.read_text()
        assert str(ROOT) not in text, name_of(page)
        assert "/tmp/" not in text, name_of(page)


def functions_of(path):
    """Return the names of all functions in a file."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_link_to_a_test_names_a_test_of_that_file(page):
    for line, title, target in titled_links(page):
        if title.startswith("test_"):
            path = page.parent / target
            assert path.is_relative_to(ROOT / "tests"), f"line {line}: {target} is not in tests/"
            assert title in functions_of(path), f"line {line}: {target} has no test {title}"


def test_each_ticket_in_the_readme_links_the_test_that_proves_it():
    text = (ROOT / "README.md").read_text()
    section = text.partition("\n## Eight tickets you will not file\n")[2].partition("\n## ")[0]
    tickets = re.split(r"^\d\. ", section, flags=re.MULTILINE)[1:]
    assert len(tickets) == 8
    assert [ticket for ticket in tickets if "](tests/" not in ticket] == []
