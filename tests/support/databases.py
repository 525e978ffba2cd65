"""Databases for tests, used again: emptying one takes a third of the time that making one does.

What a test added to the schema public is dropped. A database that is not as it was made even then is dropped
itself: the next test gets a new one.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import psycopg
from psycopg import sql

from posthouse import testing

MAX_GROWTH_BYTES = 8 * 1024 * 1024
"""What a test may have added. Emptying more would take longer than making a new one."""

_OURS = "select oid from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'"
# Nothing of the catalog is written without a new xmin, and nothing leaves it without being one less.
# The clock is reset when the database is emptied.
_CATALOG = f"""
    select array[
      (select array[count(*), max(xmin::text::bigint)] from pg_class where relnamespace in ({_OURS})),
      (select array[count(*), max(xmin::text::bigint)] from pg_proc
       where pronamespace in ({_OURS}) and oid <> 'posthouse.now()'::regprocedure),
      (select array[count(*), max(xmin::text::bigint)] from pg_attribute
       where attrelid in (select oid from pg_class where relnamespace in ({_OURS}))),
      (select array[count(*), max(xmin::text::bigint)] from pg_trigger),
      (select array[count(*), max(xmin::text::bigint)] from pg_policy),
      (select array[count(*), max(xmin::text::bigint)] from pg_constraint),
      (select array[count(*), max(xmin::text::bigint)] from pg_namespace where oid in ({_OURS}))],
      (select string_agg(setconfig::text, ',') from pg_db_role_setting
       where setdatabase = (select oid from pg_database where datname = current_database())),
      (select string_agg(gid, ',') from pg_prepared_xacts where database = current_database())"""
# Those of extensions are known by what depends on them.
_ADDED = """
    select string_agg(format('drop %%s if exists %%s cascade', kind, name), '; ') from (
      select oid, 'table', oid::regclass::text from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
      union all
      select oid, 'routine', oid::regprocedure::text from pg_proc
      where pronamespace = 'public'::regnamespace) as found (oid, kind, name)
    where oid <> all (%s) and not exists (select from pg_depend where objid = found.oid and deptype = 'e')"""
_PUBLIC = """
    select oid from pg_class where relnamespace = 'public'::regnamespace
    union all select oid from pg_proc where pronamespace = 'public'::regnamespace"""
_TABLES = f"""
    select oid::regclass::text from pg_class
    where relnamespace in ({_OURS}) and relkind in ('r', 'p') and not relispartition order by 1"""
# A table of which nothing was ever written has no file to speak of: two in three, and all need a plan.
_WRITTEN = f"""
    select string_agg(format('delete from only %%s', oid::regclass), '; ') from pg_class
    where relnamespace in ({_OURS}) and relkind = 'r' and pg_relation_size(oid) > 0 and """
_CLOCK = "select prosrc from pg_proc where oid = 'posthouse.now()'::regprocedure"
_TERMINATE_BACKENDS = """
    select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""


class Databases:
    """Made and emptied databases of one server. ``prepare`` is called with the URL of each that is made."""

    def __init__(self, server, prepare=lambda _: None):
        self._server = server
        self._prepare = prepare
        self._made = ExitStack()
        self._idle = []

    def close(self):
        self._made.close()

    @contextmanager
    def one(self):
        stack, url, before = self._reused() or self._make()
        try:
            yield url
        finally:
            if self._emptied(url, before):
                self._idle.append((stack, url, before))
            else:
                stack.close()

    def _reused(self):
        """An emptied database of today. Those of yesterday lack the last of the partitions made ahead."""
        while self._idle:
            stack, url, before = self._idle.pop()
            if before.day == _today():
                return stack, url, before
            stack.close()
        return None

    def _make(self):
        stack = self._made.enter_context(ExitStack())
        url = stack.enter_context(testing.database(self._server))
        self._prepare(url)
        with psycopg.connect(url, autocommit=True) as connection:
            return stack, url, _Baseline(connection)

    def _emptied(self, url, before):
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_TERMINATE_BACKENDS)
                before.drop_added(connection)
                if not before.is_reusable(connection):
                    return False
                before.empty(connection)
                return True
        except psycopg.Error:
            return False


class _Baseline:
    """How a database was when it was made."""

    def __init__(self, connection):
        self.day = _today()
        tables = [row[0] for row in connection.execute(_TABLES)]
        rows = {table: _rows(connection, table) for table in tables}
        self._seeds = {table: rows for table, rows in rows.items() if rows}
        self._clock = connection.execute(_CLOCK).fetchone()[0]
        self._public = [oid for (oid,) in connection.execute(_PUBLIC)]
        self._size = _size(connection)
        self._catalog = connection.execute(_CATALOG).fetchone()

    def drop_added(self, connection):
        added = connection.execute(_ADDED, [self._public]).fetchone()[0]
        if added:
            connection.execute(added)

    def is_reusable(self, connection):
        return (
            _size(connection) - self._size < MAX_GROWTH_BYTES
            and connection.execute(_CATALOG).fetchone() == self._catalog
        )

    def empty(self, connection):
        clear_written(connection, "oid::regclass::text <> all (%s)", list(self._seeds))
        for table, rows in self._seeds.items():
            if _rows(connection, table) != rows:
                clear_written(connection, "oid::regclass::text = any (%s)", [table])
                connection.execute(
                    f"insert into {table} select (row::{table}).* from unnest(%s::text[]) as row", [rows]
                )
        connection.execute(
            "select setval(format('%I.%I', schemaname, sequencename), start_value, false) from pg_sequences"
        )
        if connection.execute(_CLOCK).fetchone()[0] != self._clock:
            connection.execute(
                sql.SQL(
                    "create or replace function posthouse.now() returns timestamptz "
                    "language sql volatile parallel safe as {}"
                ).format(sql.Literal(self._clock))
            )


def _today():
    return datetime.now(UTC).date()


def _rows(connection, table):
    """As text, from which they can be made again."""
    return [row for (row,) in connection.execute(f"select t::text from {table} as t order by 1")]


def clear_written(connection, which, tables):
    """Deletes all rows of the tables for which this holds."""
    clear = connection.execute(_WRITTEN + which, [tables]).fetchone()[0]
    if clear:
        connection.execute("set session_replication_role = replica")  # the audit lets nothing be deleted
        connection.execute(clear)
        connection.execute("set session_replication_role = default")


def _size(connection):
    return connection.execute("select pg_database_size(current_database())").fetchone()[0]


def define(url, *kinds):
    """Announces definitions of these kinds, which accept any payload."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select posthouse.announce(%s)", (json.dumps([{"key": kind} for kind in kinds]),))
