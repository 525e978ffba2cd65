"""Named statements: each can be found, has a purpose, and is used. Calls fit the functions that they call."""

import ast
import re
from importlib.resources import files
from pathlib import Path

import posthouse
from posthouse.storage.queries import calling, query, signatures, statements

SOURCE = Path(posthouse.__file__).parent
ROOT = Path(__file__).parents[3]
USE = re.compile(r'\b(?:query|fetch|fetch_\w+)\(\s*(?:[\w.]+,\s*)?"(\w+)"')


def text_of(*folders):
    return "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))


def test_each_statement_has_a_purpose_and_a_name_of_its_own():
    marks = sum(
        file.read_text().count("\n-- name: ") for file in (files("posthouse.storage") / "sql").iterdir()
    )
    assert len(statements()) == marks
    assert [name for name in statements() if not query(name).startswith("-- ")] == []


def test_each_statement_is_used_and_each_name_exists():
    texts = set(re.findall(r'"(\w+)"', text_of(SOURCE, ROOT / "tests", ROOT / "bench")))
    assert statements().keys() - texts == set(), "unused"
    assert set(USE.findall(text_of(SOURCE))) - statements().keys() == set(), "unknown"


def test_each_call_fits_its_function():
    calls = [
        node
        for path in SOURCE.rglob("*.py")
        if re.search(r"\bcall(_row|_rows)?\(", text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"call", "call_row", "call_rows"}
    ]
    known = [node for node in calls if len(node.args) > 1 and isinstance(node.args[1], ast.Constant)]
    assert len(known) > 50
    for node in known:
        calling(node.args[1].value, *(keyword.arg for keyword in node.keywords if keyword.arg))


def test_the_types_of_parameters_are_those_of_the_database(db):
    rows = db.execute("""
        select proname, proargnames[1:pronargs],
               array(select format_type(t, null) from unnest(proargtypes) as t)
        from pg_proc where pronamespace = 'posthouse'::regnamespace and prokind = 'f'
        """)
    installed = {name: dict(zip(names or [], types, strict=True)) for name, names, types in rows}
    long = {"timestamptz": "timestamp with time zone", "date": "date"}
    for name, (parameters, *_) in signatures().items():
        declared = {key: long.get(type_, type_) for key, type_ in parameters.items()}
        assert declared == installed[name], name


def test_what_a_caller_leaves_out_keeps_its_default():
    assert calling("cancel", "id", "actor").endswith(
        "posthouse.cancel(%(id)s::uuid, p_actor => %(actor)s::text)"
    )
