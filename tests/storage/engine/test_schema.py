"""The schema: constraints that hold for every writer, migrations, and a snapshot of the whole.

Rewrite the snapshot after a migration with SCHEMA_SNAPSHOT=write, and read its diff.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from posthouse.errors import SchemaError
from posthouse.storage.migrations import check_schema, migrate, schema_version
from posthouse.storage.schema import JOB, Migration, base_functions, functions, migrations

SNAPSHOT = Path(__file__).with_name("schema_snapshot.txt")

DUMP = {
    "columns": """
        select format('%s.%s %s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                      case when a.attnotnull then ' not null' else '' end,
                      coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''))
        from pg_attribute a
        join pg_class c on c.oid = a.attrelid
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p', 'v')
          and not c.relispartition and a.attnum > 0 and not a.attisdropped
        order by c.relname, a.attnum""",
    "indexes": """
        select format('%s: %s', c.relname, pg_get_indexdef(i.indexrelid))
        from pg_index i
        join pg_class c on c.oid = i.indrelid
        where c.relnamespace = 'posthouse'::regnamespace and not c.relispartition
        order by 1""",
    "constraints": """
        select format('%s.%s %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
        from pg_constraint k
        join pg_class c on c.oid = k.conrelid
        where k.connamespace = 'posthouse'::regnamespace and not c.relispartition and k.contype <> 'n'
        order by 1""",
    "functions": """
        select format('%s(%s) %s%s -> %s', p.proname, pg_get_function_arguments(p.oid), l.lanname,
                      case p.provolatile when 'i' then ' immutable' when 's' then ' stable' else '' end,
                      pg_get_function_result(p.oid))
        from pg_proc p join pg_language l on l.oid = p.prolang
        where p.pronamespace = 'posthouse'::regnamespace
        order by 1""",
    "interface": """
        select format('%s: %s', o.name, o.comment)
        from (select p.proname as name, obj_description(p.oid, 'pg_proc') as comment from pg_proc as p
              where p.pronamespace = 'posthouse'::regnamespace
              union all
              select c.relname, obj_description(c.oid, 'pg_class') from pg_class as c
              where c.relnamespace = 'posthouse'::regnamespace) as o
        where o.comment not like 'Internal.%'""",
    "transitions": """
        select format('%s: %s -> %s', event, from_status, to_status) from posthouse.transitions order by 1""",
}


def dump(connection):
    """What the catalog says, in an order that does not depend on the version or the locale."""
    connection.execute("set search_path = pg_catalog")
    parts = []
    for title, statement in DUMP.items():
        lines = [row[0] for row in connection.execute(statement)]
        parts.append("\n".join([f"# {title}", *(lines if title == "columns" else sorted(lines))]))
    return "\n\n".join(parts) + "\n"


@pytest.fixture
def bare(server, request):
    """The URL of an empty database."""
    name = f"posthouse_bare_{os.getpid()}_{abs(hash(request.node.name)) % 10**8}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield make_conninfo(server, dbname=name)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def connect(url):
    return psycopg.connect(url, autocommit=True)


def test_migrations_are_numbered_from_one_without_gaps():
    assert [migration.number for migration in migrations()] == list(range(1, len(migrations()) + 1))


def test_migrations_bring_an_empty_database_up_to_date_once(bare):
    with connect(bare) as connection:
        assert schema_version(connection).number == 0
        assert migrate(connection) == list(migrations())
        assert migrate(connection) == []
        assert schema_version(connection).number == len(migrations())
        check_schema(connection)
        names = connection.execute("select number, name from posthouse.migrations order by 1").fetchall()
    assert names == [(migration.number, migration.name) for migration in migrations()]


def test_migrators_at_once_apply_each_migration_once(bare):
    def run(_):
        with connect(bare) as connection:
            return len(migrate(connection))

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(run, range(3))) == [0, 0, len(migrations())]


def test_a_migration_that_fails_leaves_nothing_behind(bare, monkeypatch):
    broken = (
        *migrations(),
        Migration(len(migrations()) + 1, "broken", "select 1/0", "0.1.0", is_required=True),
    )
    monkeypatch.setattr("posthouse.storage.migrations.migrations", lambda: broken)
    with connect(bare) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate(connection)
        assert schema_version(connection).number == 0
        assert connection.execute("select to_regclass('posthouse.ready')").fetchone() == (None,)


def test_an_empty_database_is_refused_with_what_to_do(bare):
    with connect(bare) as connection, pytest.raises(SchemaError, match="posthouse migrate"):
        check_schema(connection)


def test_a_schema_of_an_unreleased_version_is_refused(bare):
    with connect(bare) as connection:
        connection.execute("create schema posthouse create table migrations (number integer, name text)")
        with pytest.raises(SchemaError, match="unreleased version"):
            migrate(connection)


@pytest.mark.parametrize(
    "change",
    [
        "update posthouse.migrations set digest = 'other' where number = 1",
        "alter table posthouse.migrations drop column digest",
    ],
)
def test_a_schema_with_tables_of_an_unreleased_version_is_refused(own_engine, change):
    """Its version is the same, but functions of this version would not find their columns."""
    migrate(own_engine.connection)
    own_engine.connection.execute(change)
    with pytest.raises(SchemaError, match="unreleased version"):
        migrate(own_engine.connection)


def test_a_schema_that_lacks_a_required_migration_is_refused(own_engine):
    own_engine.connection.execute("delete from posthouse.migrations where number > 3")
    with pytest.raises(SchemaError, match="posthouse migrate"):
        check_schema(own_engine.connection)


def test_every_body_is_valid(own_engine):
    """A migration does not check bodies, because functions call each other in any order."""
    own_engine.connection.execute("".join(item.text for item in (*base_functions(), *functions())))


def test_the_schema_is_the_one_in_the_snapshot(own_engine):
    found = dump(own_engine.connection)
    if os.environ.get("SCHEMA_SNAPSHOT") == "write":
        SNAPSHOT.write_text(found)
    assert found == SNAPSHOT.read_text()


def test_nothing_depends_on_the_callers_search_path(own_engine):
    """The engine works for a caller whose search_path has neither its schema nor public."""
    own_engine.connection.execute("set search_path = ''")
    own_engine.enqueue(dedupe_key="k", order_key="o", payload={"x": "y" * 5_000})
    own_engine.enqueue(depends_on=[own_engine.enqueue(delay=60)])
    job = own_engine.claim_one()
    own_engine.heartbeat(job)
    own_engine.progress(job, 1.0)
    own_engine.retry(job)
    own_engine.fail(own_engine.claim_one())
    own_engine.reopen(job.id)
    own_engine.cancel(job.id)
    own_engine.advance(3600)
    own_engine.promote()
    own_engine.rescue([own_engine.register()])
    own_engine.mark_lost_workers()
    for statement in (
        "select posthouse.recheck_dependencies()::text",
        "select posthouse.create_partitions()",
        "select * from posthouse.retention_plan('{\"default\": 30}')",
        "select posthouse.delete_stale_rows(now())",
        "select posthouse.next_due()",
        "select posthouse.enqueue('x')",
    ):
        own_engine.rows(statement)


WRONG_ROWS = {
    "more attempts than allowed": ("ready", {"attempt_count": "4"}),
    "no attempts allowed": ("ready", {"max_attempts": "0", "attempt_count": "0"}),
    "an unknown source": ("ready", {"source": "'x'"}),
    "fewer than no blockers": ("waiting", {"blockers": "-1"}),
    "an unknown policy": ("waiting", {"on_dependency_failure": "'x'"}),
    "running and never started": ("running", {"started_at": "null"}),
    "running without an attempt": ("running", {"attempt_count": "0"}),
    "ended and still running": ("history", {"status": "'running'"}),
}


@pytest.mark.parametrize(("job_table", "wrong"), WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_the_tables_refuse(engine, job_table, wrong):
    if job_table == "waiting":
        engine.enqueue(delay=60)
    elif job_table == "ready":
        engine.enqueue()
    else:
        job = engine.start()
        if job_table == "history":
            engine.succeed(job)
    changes = ", ".join(f"{column} = {value}" for column, value in wrong.items())
    with pytest.raises(psycopg.errors.CheckViolation):
        engine.connection.execute(f"update posthouse.{job_table} set {changes}")


@pytest.mark.parametrize("job_table", ["ready", "waiting", "running"])
def test_a_job_cannot_be_in_one_place_twice(engine, job_table):
    engine.start() if job_table == "running" else engine.enqueue(delay=60 if job_table == "waiting" else 0)
    engine.connection.execute(f"create temp table copied as select * from posthouse.{job_table}")
    if job_table != "waiting":
        engine.connection.execute("update copied set position = position + 1")
    with pytest.raises(psycopg.errors.UniqueViolation):
        engine.connection.execute(f"insert into posthouse.{job_table} select * from copied")


def test_the_list_of_columns_is_that_of_the_tables(engine):
    def columns(table):
        rows = engine.rows(
            "select attname from pg_attribute "
            "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            f"posthouse.{table}",
        )
        return {row.attname for row in rows}

    assert columns("job") == set(JOB)
    assert all(columns(table) > set(JOB) for table in ("ready", "waiting", "running", "history"))


COMMENTS = """
    select c.relname, obj_description(c.oid, 'pg_class') from pg_class as c
    where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
    union all
    select p.proname, obj_description(p.oid, 'pg_proc') from pg_proc as p
    where p.pronamespace = 'posthouse'::regnamespace
    union all
    select t.typname, obj_description(t.oid, 'pg_type')
    from pg_type as t join pg_class as c on c.oid = t.typrelid
    where t.typnamespace = 'posthouse'::regnamespace and c.relkind = 'c'"""


def test_everything_has_a_comment_and_what_is_not_internal_is_in_the_docs(own_engine):
    comments = dict(own_engine.connection.execute(COMMENTS).fetchall())
    assert [name for name, comment in comments.items() if not comment] == []
    public = {name for name, comment in comments.items() if not comment.startswith("Internal.")}
    page = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()
    interface = page.partition("## Stable interface\n")[2].partition("\n## ")[0]
    assert public == set(re.findall(r"^\| `posthouse\.(\w+)", interface, re.MULTILINE))


def test_internal_functions_are_granted_to_the_engine_alone(own_engine):
    """And to tenants what their reads and writes are made of."""
    rows = own_engine.connection.execute("""
        select distinct p.proname, g.grantee::regrole::text from pg_proc as p
        cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as g
        where p.pronamespace = 'posthouse'::regnamespace and g.grantee <> p.proowner
          and obj_description(p.oid, 'pg_proc') like 'Internal.%'""").fetchall()
    assert {role for _, role in rows} == {"posthouse_engine", "posthouse_tenant"}
    granted = own_engine.connection.execute(
        "select f::text from posthouse.tenant_functions() as f"
    ).fetchall()
    assert {name for name, role in rows if role == "posthouse_tenant"} <= {
        name.removeprefix("posthouse.") for (name,) in granted
    }
