"""Runs the real command in a process of its own, and reads what it says."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from uuid import uuid4

import psycopg
import pytest

import stable
from waiting import WAIT_SECONDS

APP = """
import posthouse

app = posthouse.App()


@app.job(queue="mail")
async def greet(job: posthouse.Job, name: str) -> str:
    job.log.info("greeting %s", name)
    return f"hello {name}"


@app.job(retry=posthouse.Retry("10ms"))
async def explode(why: str = "no reason") -> None:
    raise ValueError(why)
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Commands:
    """``posthouse ...`` in a folder and on a database of its own."""

    def __init__(self, folder, **env):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        self.env = {**kept, **env}
        self.folder = folder
        self.started = []

    def __call__(self, *arguments, stdin="", **env):
        done = stable.posthouse(arguments, folder=self.folder, env={**self.env, **env}, stdin=stdin)
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments, **env):
        process = Running(
            ["-m", "posthouse", *arguments],
            self.folder,
            {**self.env, **env},
            self.folder / f"err{len(self.started)}",
        )
        self.started.append(process)
        return process

    def python(self, script):
        """Runs a script where the command would run."""
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=self.folder, env=self.env, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    def write_app(self, name="shop", text=APP):
        (self.folder / f"{name}.py").write_text(text)
        return f"{name}:app"


class Running:
    """A command that goes on until it is told to stop."""

    def __init__(self, words, folder, env, errors):
        self._errors = errors
        with errors.open("w") as stderr:
            self.process = stable.start(words, folder=folder, env=env, stdout=subprocess.PIPE, stderr=stderr)

    @property
    def err(self):
        return self._errors.read_text()

    def line(self):
        line = self.process.stdout.readline()
        assert line, f"it ended without a line: {self.err}"
        return line.rstrip("\n")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.rest, _ = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def posthouse(tmp_path, database):
    """Runs a command against the test's database."""
    commands = Commands(tmp_path, POSTHOUSE_DATABASE_URL=database)
    yield commands
    for process in commands.started:
        process.kill()


@pytest.fixture
def offline(tmp_path):
    """Runs a command where the database is away."""
    return Commands(tmp_path, POSTHOUSE_DATABASE_URL="postgresql://user:hunter2@127.0.0.1:1/nothing")


@pytest.fixture
def no_database(tmp_path):
    """Runs a command where no database is given; its data folder is its own."""
    commands = Commands(tmp_path, POSTHOUSE_DATA_DIR=str(tmp_path / "data"))
    yield commands
    for process in commands.started:
        process.kill()


@pytest.fixture
async def connection(database):
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def enqueue(db):
    """Enqueues by SQL: ``enqueue("mail", queue="slow")`` returns the id."""

    def call(kind, **options):
        names = "".join(f", {name} => %({name})s" for name in options)
        return db.execute(f"select posthouse.enqueue(%(kind)s{names})", {"kind": kind, **options}).fetchone()[
            0
        ]

    return call


class Fleet:
    """Workers that do only what they are told, by SQL."""

    def __init__(self, db):
        self._db = db

    def register(self, name="idler", kinds=("mail",), queues=("default",), concurrency=1, offers=()):
        """Makes a worker known; returns its id."""
        worker = uuid4()
        self._db.execute(
            "select posthouse.register(%s, %s, 'host', 1, '0', %s, %s, %s, '{}', '{}', %s)",
            (worker, name, list(queues), list(kinds), concurrency, list(offers)),
        )
        return worker

    def claim(self, worker, *, queue="default", lease="30 seconds"):
        """Claims one mail; returns its id, or None if there is none to be had."""
        row = self._db.execute(
            "select id from posthouse.claim(%s, gen_random_uuid(), %s, '{mail}', 1, %s::interval)",
            (worker, [queue], lease),
        ).fetchone()
        return row and row[0]

    def beat(self, worker):
        self._db.execute("select posthouse.heartbeat(%s, '{}', '{}', '30 seconds')", (worker,))


@pytest.fixture
def fleet(db):
    return Fleet(db)
