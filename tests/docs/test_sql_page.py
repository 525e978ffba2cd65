"""docs/sql.md lists what the database has."""

import pytest

from support.doc_pages import ROOT, table_under

PAGE = ROOT / "docs" / "sql.md"
COLUMNS = """
select attname, format_type(atttypid, null) from pg_attribute
where attrelid = %s::regclass and attnum > 0 order by attnum
"""
PARAMETERS = """
select name, format_type(type, null)
from pg_proc, unnest(proargnames, proargtypes::oid[]) with ordinality as u (name, type, ordinal)
where oid = 'posthouse.enqueue'::regproc order by ordinal
"""


def listed(heading):
    return [tuple(cell.strip("`") for cell in row[:2]) for row in table_under(PAGE, heading)]


@pytest.mark.parametrize("view", ["posthouse.jobs", "posthouse.attempts"])
def test_the_page_lists_every_column_of_the_view(db, view):
    assert listed(f"The view {view}") == db.execute(COLUMNS, (view,)).fetchall()


def test_the_page_lists_every_parameter_of_enqueue(db):
    assert listed("Parameters of posthouse.enqueue") == db.execute(PARAMETERS).fetchall()
