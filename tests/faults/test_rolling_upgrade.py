"""An upgrade under load: workers of two versions on one database, before and after the migration."""

import json
import shutil
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest

import posthouse
from fixtures.cli import Commands
from support import forkserver
from support.waiting import eventually_sync

APP = """
import posthouse

app = posthouse.App()


@app.job()
async def work(number: int) -> int:
    return number
"""
COLOR = """-- Works with code from: 0.1.0
-- Required by this code: no

alter table posthouse.job add column color text;
alter table posthouse.ready add column color text;
alter table posthouse.waiting add column color text;
alter table posthouse.running add column color text;
alter table posthouse.history add column color text;
"""
BREAK = """-- Works with code from: 0.3.0
-- Required by this code: yes

select 1;
"""


def edit(path, *changes):
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)


@pytest.fixture(scope="module")
def newer(tmp_path_factory):
    """The folder of newer code: with a column more, a claim with another signature and a changed result."""
    folder = tmp_path_factory.mktemp("newer")
    package = folder / "posthouse"
    shutil.copytree(Path(posthouse.__file__).parent, package, ignore=shutil.ignore_patterns("static"))
    storage = package / "storage"
    (storage / "tables" / "0010_color.sql").write_text(COLOR)
    edit(
        storage / "schema.py",
        ('"last_error", "trace",', '"last_error", "trace", "color",'),
        ('"progress_message", "last_error",\n}', '"progress_message", "last_error", "color",\n}'),
    )
    edit(
        storage / "functions" / "claim.sql",
        ("p_min_jobs integer default 0\n)", "p_min_jobs integer default 0, p_color text default 'red'\n)"),
        (
            "attempt_count := attempt_count + 1\n",
            "attempt_count := attempt_count + 1\n        color := p_color\n",
        ),
    )
    edit(
        storage / "functions" / "finish.sql", ("out stored uuid[], ", "out made_up text, out stored uuid[], ")
    )
    edit(storage / "migrations.py", ('version("posthouse")', '"0.2.0"'))
    return folder


class Load:
    """Enqueues jobs, one transaction each, until it is stopped."""

    def __init__(self, url):
        self.accepted, self.errors = [], []
        self._url, self._stopped = url, Event()
        self._thread = Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()

    def _run(self):
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stopped.wait(0.003):
                payload = json.dumps({"number": len(self.accepted)})
                try:
                    row = connection.execute("select posthouse.enqueue('work', %s)", [payload]).fetchone()
                except psycopg.Error as error:
                    self.errors.append(error)
                else:
                    self.accepted.append(row[0])


@pytest.fixture
def of_version(tmp_path, database, newer):
    """Commands of the current code and of the newer one, in processes of their own."""
    both = {
        "old": Commands(tmp_path, POSTHOUSE_DATABASE_URL=database),
        "new": Commands(
            tmp_path,
            POSTHOUSE_DATABASE_URL=database,
            PYTHONPATH=str(newer),
            **{forkserver.NEW_INTERPRETER: "1"},
        ),
    }
    both["old"].write_app(text=APP)
    yield both
    for commands in both.values():
        for process in commands.started:
            process.kill()


def test_workers_of_two_versions_share_a_database_before_and_after_the_migration(
    of_version, newer, db, database
):
    running = {}

    def start(name):
        running[name] = of_version[name[:3]].start("worker", "--app", "shop:app", "--name", name)

    def ended(name, color=None):
        """Whether a worker has ended a job that was claimed after the migration, if it has a color."""
        found = db.execute(
            "select exists (select from posthouse.history as h "
            "join posthouse.workers as w on w.id = h.worker_id "
            "where w.name like %s and to_jsonb(h) ->> 'color' is not distinct from %s)",
            (f"{name}%", color),
        )
        return found.fetchone()[0]

    with Load(database) as load:
        start("old-1")
        start("old-2")
        start("new-1")
        eventually_sync(lambda: all(ended(name) for name in running), what="jobs of both versions, before")
        migrated = of_version["new"]("migrate")
        assert migrated.code == 0, migrated.err
        assert "applied 0010 color" in migrated.out
        eventually_sync(
            lambda: all(ended(name, "red") for name in running), what="jobs of both versions, after"
        )
        assert running["old-1"].stop() == 0
        start("new-2")
        eventually_sync(lambda: ended("new-2", "red"))
        assert running["old-2"].stop() == 0
        start("old-3")
        eventually_sync(
            lambda: ended("old-3", "red"), what="a job of old code that was started after the migration"
        )
        assert of_version["old"]("migrate").code == 0
    assert load.errors == []
    left = "select count(*) from posthouse.jobs where kind = 'work' and status <> 'succeeded'"
    eventually_sync(lambda: db.execute(left).fetchone() == (0,), what="the end of all jobs")
    ids = db.execute("select id from posthouse.history where kind = 'work'").fetchall()
    assert sorted(row[0] for row in ids) == sorted(load.accepted)
    assert db.execute("select sum(crashes) from posthouse.history").fetchone() == (0,)

    (newer / "posthouse" / "storage" / "tables" / "0011_break.sql").write_text(BREAK)
    edit(newer / "posthouse" / "storage" / "migrations.py", ('"0.2.0"', '"0.3.0"'))
    assert of_version["new"]("migrate").code == 0
    for words in (["worker", "--app", "shop:app"], ["enqueue", "work"], ["migrate"]):
        refused = of_version["old"](*words)
        assert refused.code == 1
        assert "needs Posthouse 0.3.0 or newer" in refused.err
