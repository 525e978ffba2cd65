"""Ordinary roles, databases that they own, and transactions that speak for one tenant."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from uuid import uuid4

import httpx
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from posthouse.cli.run_server import ServerProcess
from posthouse.identity import Role, issue_key
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
    heard = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: heard.append((notice.severity, notice.message_primary)))
        migrate(connection)
    return [message for severity, message in heard if severity == "WARNING"]


@contextmanager
def speaking_for(connection, tenant):
    """A transaction as the API has it."""
    with connection.transaction():
        connection.execute(
            "select set_config('role', 'posthouse_tenant', true), set_config('posthouse.tenant', %s, true)",
            (tenant,),
        )
        yield connection


class House:
    """A server on a database, in a thread of its own, so that the tests of a module share it."""

    def __init__(self, url, database):
        self.url = url
        self.database = database
        self._clients = []

    def key(self, role, tenant=None, **options):
        return asyncio.run(self._issue(Role(role), tenant, options))

    async def _issue(self, role, tenant, options):
        async with await psycopg.AsyncConnection.connect(self.database, autocommit=True) as connection:
            return await issue_key(connection, f"a {role}", role, tenant=tenant, actor="test", **options)

    def client(self, credential=None, **options):
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        client = httpx.Client(base_url=self.url, headers={**headers, **options.pop("headers", {})}, **options)
        self._clients.append(client)
        return client

    def as_(self, role, tenant=None):
        return self.client(self.key(role, tenant))

    def connect(self):
        return psycopg.connect(self.database, autocommit=True)

    def close(self):
        for client in self._clients:
            client.close()


@contextmanager
def serving(settings, *, database=None):
    """``database``: the way to it past a pooler, for looking."""
    started, stop = Future(), Future()

    async def serve():
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        stop.add_done_callback(lambda _: loop.call_soon_threadsafe(stopped.set))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = ServerProcess(settings)
            try:
                await server.start(listening)
            except BaseException as error:  # noqa: BLE001 - told to the test
                started.set_exception(error)
                return
            started.set_result(f"http://127.0.0.1:{listening.getsockname()[1]}")
            await stopped.wait()
            await server.stop()

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        house = House(started.result(30), database or settings.database_url)
        yield house
        house.close()
    finally:
        stop.set_result(None)
        thread.join(30)


def problem(answer):
    """The status and the code of an error."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]
