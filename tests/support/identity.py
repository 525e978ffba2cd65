"""Ordinary roles, databases that they own, and transactions that speak for one tenant."""

from __future__ import annotations

from contextlib import contextmanager
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from posthouse.storage.migrations import migrate

PASSWORD = "only-in-tests"


@contextmanager
def ordinary_role(server, *options, member_of=()):
    """A login role without special rights; it is dropped with everything that it owns."""
    name = f"role_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            sql.SQL("create role {} login password {} " + " ".join(options)).format(
                sql.Identifier(name), PASSWORD
            )
        )
        for role in member_of:
            admin.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(name)))
        try:
            yield name
        finally:
            admin.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(name)))
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@contextmanager
def owned_database(server, role):
    """The URL of an empty database of that role's, as that role."""
    name = f"owned_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            sql.SQL("create database {} owner {}").format(sql.Identifier(name), sql.Identifier(role))
        )
        try:
            yield as_role(make_conninfo(**{**conninfo_to_dict(server), "dbname": name}), role)
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def as_role(url, role):
    return make_conninfo(**{**conninfo_to_dict(url), "user": role, "password": PASSWORD})


def migrated(url):
    """Migrate as the user of the URL and return the warnings."""
    notices = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.add_notice_handler(
            lambda notice: notices.append((notice.severity, notice.message_primary))
        )
        migrate(connection)
    return [message for severity, message in notices if severity == "WARNING"]


@contextmanager
def as_tenant(connection, tenant):
    """A transaction as the API has it."""
    with connection.transaction():
        connection.execute(
            "select set_config('role', 'posthouse_tenant', true), set_config('posthouse.tenant', %s, true)",
            (tenant,),
        )
        yield connection


def problem(answer):
    """The status and the code of an error."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]
