"""Applications are built on what is public: what they need besides belongs into the engine."""

import ast
from pathlib import Path

import pytest

import posthouse
import posthouse.demo
import posthouse.server
import posthouse.testing

ROOT = Path(__file__).parents[2]
PUBLIC = {"posthouse": posthouse.__all__, "posthouse.server": posthouse.server.__all__}
PUBLIC["posthouse.demo"] = posthouse.demo.__all__
PUBLIC["posthouse.testing"] = posthouse.testing.__all__
PUBLIC["posthouse.blobs"] = [
    "NotStored",
    "Storage",
    "StoredFile",
    "app_folder",
    "app_storage",
    "open_storage",
]
PUBLIC["posthouse.triggers"] = ["create_trigger"]
APPS = sorted(
    path.parent for path in ROOT.glob("apps/*/pyproject.toml") if "entry-points" in path.read_text()
)
MAX_LINES = 200


def _sources(app):
    return [path for path in app.rglob("*.py") if "tests" not in path.parts]


def _imported(path):
    """(module, name) of all that a file has of ours."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((item.name, None) for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", item.name) for item in node.names)


def test_there_are_five():
    assert len(APPS) == 5


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_an_application_imports_public_names_only(app):
    found = {
        (path.name, module, name)
        for path in _sources(app)
        for module, name in _imported(path)
        if module.partition(".")[0] == "posthouse"
    }
    assert [item for item in found if item[2] and item[2] not in PUBLIC.get(item[1], ())] == []
    assert [item for item in found if not item[2] and item[1] not in PUBLIC] == []


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_the_handlers_of_an_application_are_short(app):
    handlers = [path for path in _sources(app) if ".job(" in path.read_text()]
    assert sum(len(path.read_text().splitlines()) for path in handlers) <= MAX_LINES


def test_the_library_of_media_imports_nothing_of_posthouse():
    found = {module for path in _sources(ROOT / "apps" / "media") for module, _ in _imported(path)}
    assert [module for module in found if module.partition(".")[0] == "posthouse"] == []
