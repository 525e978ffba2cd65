"""--reload: new code is picked up, running jobs are released, broken code is waited out."""

import json
import signal

import pytest

from fixtures.cli import Commands
from support import forkserver
from support.waiting import eventually_sync

FRESH = {forkserver.NEW_INTERPRETER: "1"}
APP = """
import asyncio
import posthouse

app = posthouse.App()


@app.job()
async def version() -> str:
    return "{version}"


@app.job(max_attempts=1)
async def wait() -> None:
    await asyncio.sleep(0 if "{version}" == "last" else 300)
"""


@pytest.fixture
def write(posthouse):
    """Writes the application, of this version."""

    def write(version):
        return posthouse.write_app("shop", APP.replace("{version}", version))

    return write


@pytest.fixture
def answers(enqueue, db):
    """Whether a job gets this answer, from a worker with the code of now."""

    def answers(expected):
        job = enqueue("version")
        row = "select result from posthouse.jobs where id = %s and status = 'succeeded'"
        return eventually_sync(lambda: db.execute(row, (job,)).fetchone())[0] == expected

    return answers


@pytest.mark.timeout(300)
def test_a_worker_picks_up_new_code_and_waits_out_broken_code(posthouse, write, answers, enqueue, db):
    worker = posthouse.start("worker", "--app", write("one"), "--reload", "--log-text", **FRESH)
    assert "worker " in worker.line()
    assert answers("one")
    held = enqueue("wait", max_attempts=1)
    status = "select status from posthouse.jobs where id = %s"
    eventually_sync(lambda: db.execute(status, (held,)).fetchone() == ("running",))

    write("two")
    assert eventually_sync(lambda: answers("two"))
    assert "reload: shop.py changed, restarting" in worker.err

    (posthouse.folder / "shop.py").write_text("import posthouse\napp = posthouse.App(\n")
    eventually_sync(lambda: "waiting for a change" in worker.err)
    assert "SyntaxError" in worker.err
    assert worker.process.poll() is None

    # It was interrupted twice, and has its one attempt still.
    write("last")
    eventually_sync(lambda: db.execute(status, (held,)).fetchone() == ("succeeded",))
    assert worker.stop() == 0
    assert db.execute("select from posthouse.workers where stopped_at is null").fetchone() is None


@pytest.mark.timeout(300)
@pytest.mark.soak
def test_up_keeps_its_address_and_its_postgres(tmp_path):
    commands = Commands(tmp_path, POSTHOUSE_DATA_DIR=str(tmp_path / "data"))
    app = commands.write_app("shop", APP.replace("{version}", "one"))
    up = commands.start("up", "--port", "0", "--app", app, "--reload", **FRESH)
    try:
        assert up.line().startswith("Posthouse is ready: http://127.0.0.1:")
        started = json.loads((tmp_path / "data" / "state.json").read_text())
        commands.write_app("shop", APP.replace("{version}", "two"))
        eventually_sync(lambda: "reload: ready" in up.err)
        done = commands("enqueue", "version", "--wait")
        assert "two" in done.out, done.err
        assert json.loads((tmp_path / "data" / "state.json").read_text()) == started
        log = (tmp_path / "data" / "server.log").read_text()
        assert log.count("ready to accept connections") == 1
        assert up.stop(signal.SIGINT) == 0
        assert "Posthouse is ready" not in up.rest
    finally:
        up.kill()
    assert "Traceback" not in up.err


def test_without_watchfiles_it_says_what_to_install(posthouse, write):
    script = (
        "import importlib.metadata as m, sys\n"
        "real = m.distribution\n"
        "def bare(name):\n"
        "    if name == 'watchfiles':\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.distribution = bare\n"
        f"sys.argv = ['posthouse', 'worker', '--app', {write('one')!r}, '--reload']\n"
        "from posthouse.cli.main import main\n"
        "main()\n"
    )
    done = posthouse.python(script)
    assert done.code == 1
    assert "pip install 'posthouse[reload]'" in done.err
