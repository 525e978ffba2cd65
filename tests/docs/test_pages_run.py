"""What the pages show is what happens."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from support import forkserver
from support.doc_pages import blocks, name_of, pages
from support.output_matching import output_matches

RUNNER = Path(__file__).parent / "run_page.py"
RUN = {"python", "console", "sql", "toml"}
MAX_NOT_RUN = 12
ZERO_SETUP = {"README.md", "docs/tutorial.md"}
"""Pages for readers who have installed the package and nothing else."""


def runnable(page):
    return [block for block in blocks(page) if block.language in RUN and not block.not_run]


COMMON = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a page's own tests need none of ours
}


def run(page, folder, environment):
    environment = {**environment, **COMMON, forkserver.ADDRESS: forkserver.socket_path()}
    return forkserver.run_python([RUNNER, page], folder=folder, env=environment, seconds=170)


@pytest.fixture
def run_page(database, tmp_path):
    def with_database(page):
        settings = {"POSTHOUSE_DATABASE_URL": database, "POSTHOUSE_RESCUE_GRACE_SECONDS": "0"}
        return run(page, tmp_path, {**os.environ, **settings})

    return with_database


@pytest.fixture
def follow_page(tmp_path_factory):
    """Run a page as a new reader would: in an empty folder, with a home of their own and no settings."""

    def without_settings(page):
        outside = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        home = {"HOME": str(tmp_path_factory.mktemp("home"))}
        outside.pop("XDG_DATA_HOME", None)
        return run(page, tmp_path_factory.mktemp("empty"), {**outside, **home})

    return without_settings


def complete(done, page):
    return done.returncode == 0 and int(done.stdout.split()[0]) >= len(runnable(page))


WITH_DATABASE = [page for page in pages() if runnable(page) and name_of(page) not in ZERO_SETUP]


def needs_curl(page):
    return any("$ curl " in block.text for block in runnable(page))


@pytest.mark.parametrize("page", WITH_DATABASE, ids=name_of)
def test_every_block_of_the_page_runs_and_shows_what_comes(page, run_page):
    if needs_curl(page) and shutil.which("curl") is None:
        pytest.skip("curl is not installed: apt-get install curl")
    done = run_page(page)
    assert complete(done, page), done.stderr


@pytest.mark.parametrize("page", [page for page in pages() if name_of(page) in ZERO_SETUP], ids=name_of)
def test_a_new_reader_can_follow_the_page_to_its_end_without_any_setup(page, follow_page):
    done = follow_page(page)
    assert complete(done, page), done.stderr


def test_few_blocks_are_not_run_and_each_says_why():
    every = [(name_of(page), block) for page in pages() for block in blocks(page)]
    # Excerpts of sources are compared with them: see test_app_guides.py.
    skipped = [(name, one.line) for name, one in every if one.not_run and not one.not_run.startswith("from ")]
    assert len(skipped) <= MAX_NOT_RUN, skipped


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_says_what_it_is(page):
    known = RUN | {"text", "mermaid", "ini"}
    strange = [block.line for block in blocks(page) if block.language not in known and not block.not_run]
    assert not strange


def test_the_first_program_of_the_readme_is_short_and_complete():
    readme = next(page for page in pages() if name_of(page) == "README.md")
    program = next(block for block in blocks(readme) if block.language == "python")
    assert program.file_name is not None
    lines = [line for line in program.text.splitlines() if line.strip()]
    assert len(lines) <= 20


def test_a_page_whose_code_fails_is_found_out(run_page, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nvalue = 1\n```\n\n```python\nassert value == 2\n```\n")
    done = run_page(page)
    assert done.returncode != 0
    assert "page.md:6" in done.stderr


def test_a_page_that_shows_other_output_is_found_out(run_page, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('one')\n```\n\n```text\ntwo\n```\n")
    assert "the page shows" in run_page(page).stderr


@pytest.mark.parametrize(("shown", "real"), [("2 jobs", "3 jobs"), ("one", "one\ntwo"), ("one\ntwo", "one")])
def test_output_that_is_other_more_or_less_does_not_agree(shown, real):
    assert not output_matches(shown, real)


def test_shown_output_may_differ_in_ids_times_and_spaces():
    assert output_matches(
        "019a8b1c-0000-7000-8000-000000000001  done at 2025-11-15 20:00 after 1.5 s\n…\nlast",
        "019a8b1c-ffff-7fff-8fff-000000000002 done at 2031-01-01 00:00 after 20 s\nany\nthing\nlast\n",
    )
