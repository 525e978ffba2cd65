"""The reference lists every public name. Those of SQL: tests/storage/engine/test_schema.py."""

import re

import pytest

import posthouse
from posthouse import errors, server, testing
from support.doc_pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
HEADINGS = set(re.findall(r"^#+ (\S+)$", (REFERENCE / "python.md").read_text(), re.MULTILINE))
ERRORS = set(re.findall(r"`(\w+)`", (REFERENCE / "errors.md").read_text()))


def is_error(value):
    return isinstance(value, type) and issubclass(value, posthouse.PosthouseError)


@pytest.mark.parametrize("module", [posthouse, testing, server], ids=lambda module: module.__name__)
def test_every_public_name_has_a_section(module):
    names = [name for name in module.__all__ if not is_error(getattr(module, name))]
    returned = {"Clock"}  # by testing.clock(), which describes it
    missing = [name for name in names if not {name, f"posthouse.{name}"} & (HEADINGS | returned)]
    assert missing == []


def test_every_error_is_listed():
    classes = {name for name, value in vars(errors).items() if is_error(value)}
    assert classes - ERRORS == set()
