"""Applications connect to the embedded Postgres as a role that is no superuser."""

import psycopg
import pytest

import posthouse
from posthouse.settings import Settings
from posthouse.storage import database
from posthouse.storage.database import close_embedded, embedded_server
from posthouse.storage.migrations import Extension, extensions_in

SCHEMA = """
-- create extension if not exists not_this_one;
create schema if not exists shop;
create extension if not exists vector with schema public;
create table if not exists shop.things (place vector(3));
"""


@pytest.fixture(scope="module")
def embedded(shared_dir):
    """The embedded server as `posthouse up` starts it."""
    assert not database._servers
    yield embedded_server(shared_dir)
    close_embedded()


def one(url, statement):
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement).fetchone()


def test_the_applications_role_owns_the_database_and_is_no_superuser(embedded):
    assert one(embedded.url, "select current_user, current_setting('is_superuser')") == ("posthouse", "off")
    owner = "select pg_get_userbyid(datdba) from pg_database where datname = current_database()"
    assert one(embedded.url, owner) == ("posthouse",)
    for forbidden in ("select pg_read_file('PG_VERSION')", "copy (select) to program 'true'"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            one(embedded.url, forbidden)
    assert one(embedded.admin_url_for(), "select current_setting('is_superuser')") == ("on",)


def test_tenants_are_kept_apart_and_bulk_enqueues_copy(embedded):
    assert one(
        embedded.url, "select posthouse.missing_isolation(), row_security_active('posthouse.ready')"
    ) == (
        None,
        False,
    )


def test_an_application_gets_its_extension(embedded, shared_dir, tmp_path):
    schema = tmp_path / "schema.sql"
    schema.write_text(SCHEMA)
    for url in ("", embedded.url):
        app = posthouse.App(settings=Settings(data_dir=shared_dir, database_url=url), schema=schema)
        app.migrate()
    owners = """
        select pg_get_userbyid(extowner), pg_get_userbyid(relowner) from pg_extension, pg_class
        where extname = 'vector' and relname = 'things'"""
    assert one(embedded.url, owners) == ("posthouse_admin", "posthouse")


def test_extensions_are_found_in_sql_and_not_in_comments():
    assert extensions_in(SCHEMA) == [Extension("vector", "public")]
    assert extensions_in('CREATE EXTENSION IF NOT EXISTS "uuid-ossp";') == [Extension("uuid-ossp", None)]
    assert extensions_in("/* create extension if not exists x; */ select 1") == []
