"""Upgrades: functions are replaced as a whole, tables are not waited for, code meets schemas of others."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from psycopg.errors import UndefinedFunction

from posthouse.errors import SchemaError
from posthouse.storage import migrations as migrator
from posthouse.storage import schema
from posthouse.storage.migrations import check_schema, migrate, schema_version
from posthouse.storage.schema import Definition, Migration, expand_columns

KNOWN = len(schema.migrations())
NEWER = "99.0.0"
OLDER = "0.1.0"

RETURNS_TEXT = """
create or replace function posthouse.is_legal(p_event text, p_from text, p_to text) returns text
language sql as $$ select 'certainly' $$;
"""
WITH_ONE_MORE = """
create or replace function posthouse.priority(p_name text, p_factor integer default 1) returns integer
language sql as $$ select 7 * p_factor $$;
"""
NEW_VIEW = "create or replace view posthouse.attempts with (security_invoker = true) as select 1 as one;\n"
CHANGED = {
    "posthouse.is_legal": RETURNS_TEXT,
    "posthouse.priority": WITH_ONE_MORE,
    "posthouse.attempts": NEW_VIEW,
}
NEW = Definition("function", "posthouse.brand_new", "create function posthouse.brand_new() returns void "
                 "language sql as '';\n", "Internal.")  # fmt: skip
SIGNATURES = """
    select p.oid::regprocedure::text from pg_proc as p
    where pronamespace = 'posthouse'::regnamespace order by 1"""


def made_up(number=KNOWN + 1, text="select 1", lowest_code=OLDER, *, is_required=False):
    return Migration(number, "made_up", text, lowest_code, is_required)


@pytest.fixture
def connection(own_engine):
    return own_engine.connection


@pytest.fixture
def newer(monkeypatch):
    """Makes this process newer code: with other functions, or with one more migration."""

    def change(functions=None, added=None):
        if functions is not None:
            monkeypatch.setattr(migrator, "functions", lambda: functions)
            monkeypatch.setattr(migrator, "functions_digest", lambda: "newer")
        if added is not None:
            monkeypatch.setattr(migrator, "migrations", lambda: (*schema.migrations(), added))

    return change


def signatures(connection):
    return {row[0] for row in connection.execute(SIGNATURES)}


def test_functions_are_replaced_as_a_whole_and_those_gone_are_dropped_later(connection, newer, monkeypatch):
    before = signatures(connection)
    functions = [
        replace(item, text=CHANGED.get(item.name, item.text))
        for item in schema.functions()
        if item.name != "posthouse.mark_returned_workers"
    ]
    ask = "select posthouse.priority('high')"
    assert connection.execute(ask, prepare=True).fetchone() == (50,)
    newer((*functions, NEW))
    assert migrate(connection) == []
    assert connection.execute(ask, prepare=True).fetchone() == (7,), "older callers get the new function"
    assert connection.execute("select posthouse.is_legal('', '', '')").fetchone() == ("certainly",)
    assert connection.execute("select * from posthouse.attempts").fetchone() == (1,)
    connection.execute("select posthouse.mark_returned_workers()")  # by a caller that was on its way
    assert migrate(connection) == []
    connection.execute("select posthouse.mark_returned_workers()")
    connection.execute("select posthouse.drop_retired_functions('0')")
    with pytest.raises(UndefinedFunction):
        connection.execute("select posthouse.mark_returned_workers()")
    changed = {"posthouse.priority(text)", "posthouse.priority(text,integer)",
               "posthouse.mark_returned_workers()",
               "posthouse.brand_new()"}  # fmt: skip
    assert signatures(connection) ^ before == changed

    monkeypatch.undo()
    assert migrate(connection) == []
    connection.execute("select posthouse.drop_retired_functions('0')")
    assert signatures(connection) == before
    assert connection.execute(ask, prepare=True).fetchone() == (50,)
    granted = "select has_table_privilege('posthouse_tenant', 'posthouse.attempts', 'select')"
    assert connection.execute(granted).fetchone() == (True,), "also of a view that was dropped and created"


def test_a_view_on_which_a_users_view_depends_gets_columns_at_its_end_only(connection, newer):
    connection.execute("create view public.mine as select id, tenant_id from posthouse.jobs")
    before = schema.functions()
    view = next(item for item in before if item.name == "posthouse.jobs")
    head = "create or replace view posthouse.jobs with (security_invoker = true) as\n"
    columns = f"select w.*, 1 as one from ({view.text.removeprefix(head).rstrip().rstrip(';')}) as w;\n"
    others = tuple(item for item in before if item != view)
    newer((*others, replace(view, text=head + "select 1 as one;\n")))
    with pytest.raises(
        SchemaError, match=r"the view posthouse.jobs .* view mine depends on view .*drop what"
    ):
        migrate(connection)
    newer((*others, replace(view, text=head + columns)))
    assert migrate(connection) == []
    assert connection.execute("select count(one), (select count(*) from mine) from posthouse.jobs").fetchone()


def test_a_table_in_use_is_not_waited_for(own_engine, newer, monkeypatch):
    """Everything that needs the table would wait behind the migration."""
    added = made_up(text="alter table posthouse.ready add column color text")
    newer(added=added)
    monkeypatch.setattr(migrator, "TRY_PAUSE", 0.01)
    monkeypatch.setattr(migrator, "LOCK_ATTEMPTS", 2)
    with own_engine.new_connection(autocommit=False) as user, own_engine.new_connection() as other:
        user.rows("select from posthouse.ready")
        with pytest.raises(SchemaError, match="end the transaction"):
            migrate(own_engine.connection)
        assert schema_version(own_engine.connection).number == KNOWN
        monkeypatch.setattr(migrator, "LOCK_ATTEMPTS", 100_000)
        with ThreadPoolExecutor(1) as pool:
            migrating = pool.submit(migrate, own_engine.connection)
            for _ in range(20):
                other.enqueue()
            assert not migrating.done()
            user.commit()
            assert migrating.result() == [added]
    assert other_columns(own_engine) == ["color"]


def other_columns(engine):
    rows = engine.rows("""
        select attname from pg_attribute where attrelid = 'posthouse.ready'::regclass and attnum > 0
        except select attname from pg_attribute where attrelid = 'posthouse.job'::regclass
        except values ('lane'), ('position')""")
    return [row.attname for row in rows]


def record(connection, lowest_code):
    connection.execute(
        "insert into posthouse.migrations (number, name, lowest_code) values (9999, 'x', %s)", [lowest_code]
    )


def test_older_code_works_with_a_newer_schema_and_leaves_it_alone(connection):
    record(connection, migrator.code_version())
    connection.execute("update posthouse.installed_functions set digest = 'newer'")
    check_schema(connection)
    assert migrate(connection) == []
    assert connection.execute("select digest from posthouse.installed_functions").fetchone() == ("newer",)


def test_functions_of_a_newer_version_are_left_alone(connection):
    connection.execute("update posthouse.installed_functions set digest = 'newer', version = %s", [NEWER])
    assert migrate(connection) == []
    assert connection.execute("select digest from posthouse.installed_functions").fetchone() == ("newer",)


def test_a_schema_that_needs_newer_code_is_refused(connection):
    record(connection, NEWER)
    for step in (check_schema, migrate):
        with pytest.raises(SchemaError, match=f"needs Posthouse {NEWER} or newer.*upgrade Posthouse"):
            step(connection)


def test_newer_code_works_with_an_older_schema_unless_it_needs_the_newer_one(connection, newer):
    newer(added=made_up())
    check_schema(connection)
    newer(added=made_up(is_required=True))
    with pytest.raises(SchemaError, match=f"needs version {KNOWN + 1}: run `posthouse migrate`"):
        check_schema(connection)


def test_no_migration_needs_newer_code_than_the_one_it_comes_with():
    own = migrator.version_key(migrator.code_version())
    assert all(migrator.version_key(item.lowest_code) <= own for item in schema.migrations())


def test_the_lists_of_columns_refuse_unknown_names():
    for text in ("@job -nothing@", "@job\n  nothing := 1\n@"):
        with pytest.raises(ValueError, match="no column nothing"):
            expand_columns(text)
    assert expand_columns("(@attempt r -lane -worker_id\n  token := f(a,\n    b)\n@)") == (
        "(r.position, f(a,\n    b) as token, r.attempt_started_at, r.lease_expires_at, r.cancel_requested_at)"
    )
