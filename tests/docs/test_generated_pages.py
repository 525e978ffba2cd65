"""The generated pages are what the generator makes of the code today."""

import os

import pytest

from support import forkserver
from support.doc_pages import ROOT

GENERATED = (
    "docs/lifecycle.md",
    "docs/reference/commands.md",
    "docs/reference/errors.md",
    "docs/reference/http.md",
    "docs/reference/metrics.md",
    "docs/reference/python.md",
    "docs/reference/settings.md",
)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    command = [ROOT / "tools" / "reference.py", "--into", folder]
    # In a new interpreter: forked ones have the command line built already, and the generator builds it.
    done = forkserver.run_python(command, folder=folder, env={**os.environ, forkserver.NEW_INTERPRETER: "1"})
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", GENERATED)
def test_the_committed_page_is_up_to_date(generated, name):
    made, committed = (generated / name).read_text(), (ROOT / name).read_text()
    assert committed == made, f"{name} is stale: run python tools/reference.py"


def test_the_generator_writes_these_pages_and_no_other(generated):
    written = {path.relative_to(generated).as_posix() for path in generated.rglob("*.md")}
    assert written == set(GENERATED)
