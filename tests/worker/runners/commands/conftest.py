"""Definitions of commands, workers that run them, and the real command line; no process is left behind."""

import json
import os
from uuid import uuid4

import pytest

from posthouse.client.client import Client
from support.command_jobs import Program
from support.commands import processes_with


@pytest.fixture
async def client(settings):
    async with Client(settings=settings) as client:
        yield client


@pytest.fixture
def define(db):
    """Creates a command: ``define("report", ["prog", ...], secrets={...}, fields={"schema": {...}})``."""

    def call(key, argv, *, timeout=60, fields=None, **command):
        known = {"command": {"argv": argv, **command}, "timeout_seconds": timeout, **(fields or {})}
        db.execute("select posthouse.create_definition(%s, %s)", (key, json.dumps(known)))

    return call


@pytest.fixture
def change(db):
    def call(key, **fields):
        db.execute("select posthouse.change_definition(%s, %s)", (key, json.dumps(fields)))

    return call


@pytest.fixture
def token():
    """A word for command lines by which all processes of a test are found."""
    token = f"token-{uuid4().hex}"
    yield token
    assert processes_with(token) == []


@pytest.fixture
def program(tmp_path, database):
    """``posthouse ...`` as a user runs it: to its end by a call, or ``program.start(...)``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
    program = Program(tmp_path, {**kept, "POSTHOUSE_DATABASE_URL": database})
    yield program
    program.end()
