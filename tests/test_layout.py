"""The layout of the tests themselves."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "posthouse"
CROSSING = {"docs", "faults", "fixtures", "hostile", "operator", "packaging", "support"}
"""Folders of tests that belong to no single package."""


def test_each_folder_of_tests_is_that_of_a_package():
    folders = {path.parent.name for path in ROOT.glob("tests/*/*.py")}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    packages |= {path.stem for path in SOURCE.glob("*.py")}
    assert folders - packages == CROSSING


def test_helper_modules_have_unique_names():
    """Every folder with tests is on sys.path: of two modules with one name, all tests import the first."""
    tests = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("apps/*/tests/**/test_*.py")]
    modules = Counter(path.name for folder in {test.parent for test in tests} for path in folder.glob("*.py"))
    assert {name for name, count in modules.items() if count > 1} <= {"conftest.py", "__init__.py"}
