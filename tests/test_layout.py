"""The layout of the tests themselves."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_helper_modules_have_unique_names():
    """Every folder with tests is on sys.path: of two modules with one name, all tests import the first."""
    tests = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("apps/*/tests/**/test_*.py")]
    modules = Counter(path.name for folder in {test.parent for test in tests} for path in folder.glob("*.py"))
    assert {name for name, count in modules.items() if count > 1} <= {"conftest.py", "__init__.py"}
