"""Links between pages lead somewhere."""

import pytest
from doc_pages import ROOT, anchors, links, name_of, pages


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
