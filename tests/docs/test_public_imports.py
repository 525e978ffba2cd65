"""Pages for new readers teach public names only."""

import ast

import pytest

import posthouse
from posthouse import errors, testing
from support.doc_pages import ROOT, blocks, name_of

PUBLIC = {
    "posthouse": {*posthouse.__all__, "testing"},
    "posthouse.testing": set(testing.__all__),
    "posthouse.errors": {name for name in vars(errors) if not name.startswith("_")},
}


def imported(text):
    """Return (module, name) for each import of Posthouse in a block."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "posthouse":
            yield from ((node.module, item.name) for item in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                (item.name, None) for item in node.names if item.name.partition(".")[0] == "posthouse"
            )


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"], ids=name_of)
def test_the_page_imports_public_names_only(page):
    code = [block.text for block in blocks(page) if block.language == "python"]
    found = {item for text in code for item in imported(text)}
    assert found
    assert [item for item in found if item[0] not in PUBLIC] == []
    assert [item for item in found if item[1] and item[1] not in PUBLIC[item[0]]] == []
