"""Definitions by SQL, clients of both kinds, and the real command."""

import json
import os

import pytest

from posthouse.client.client import Client
from posthouse.client.sync import SyncClient
from support import forkserver


@pytest.fixture
async def client(settings):
    async with Client(settings=settings) as client:
        yield client


@pytest.fixture
def sync_client(settings):
    with SyncClient(settings=settings) as client:
        yield client


@pytest.fixture
def create(db):
    """Creates the definition of a command: ``create("report", schema={...})``."""

    def call(key="report", **fields):
        known = {"command": {"argv": ["true"]}, **fields}
        db.execute("select posthouse.create_definition(%s, %s)", (key, json.dumps(known)))

    return call


@pytest.fixture
def change(db):
    def call(key, clear=(), **fields):
        db.execute("select posthouse.change_definition(%s, %s, %s)", (key, json.dumps(fields), list(clear)))

    return call


@pytest.fixture
def stored(db):
    """How many jobs there are."""
    return lambda: db.execute("select count(*) from posthouse.jobs").fetchone()[0]


@pytest.fixture
def posthouse_command(tmp_path, database):
    """Runs ``posthouse ...``; returns what came of it."""

    def run(*arguments, stdin=""):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        env = {**kept, "POSTHOUSE_DATABASE_URL": database}
        return forkserver.run_posthouse(arguments, folder=tmp_path, env=env, stdin=stdin)

    return run
