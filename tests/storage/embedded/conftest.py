"""Real servers in folders of their own, and real processes that attach to them."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from posthouse import errors
from posthouse.storage.embedded import attach_server
from posthouse.storage.embedded.layout import Layout
from posthouse.storage.embedded.process import is_alive
from posthouse.storage.embedded.server import stop_server

SOURCE = Path(errors.__file__).parents[1]
QUICK = {"fsync": "off", "shared_buffers": "16MB"}
ATTACH = """
import sys
from pathlib import Path
from posthouse.storage.embedded import attach_server
server = attach_server(Path(sys.argv[1]), settings={"fsync": "off", "shared_buffers": "16MB"})
print(server.url, flush=True)
sys.stdin.readline()
server.close()
"""


class AttachedProcess:
    """Another process that attaches at once, and closes when told to."""

    def __init__(self, data_dir):
        self._process = run_python(ATTACH, data_dir)

    def url(self):
        return self._process.stdout.readline().strip()

    def close(self):
        self._process.communicate("close\n")
        assert self._process.returncode == 0

    def kill(self):
        self._process.kill()
        self._process.communicate()


def run_python(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


@pytest.fixture
def python():
    """Start a script in a process of its own."""
    processes = []

    def start(script, *arguments):
        processes.append(run_python(script, *arguments))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def quick_folder():
    """Memory where there is enough of it and programs may run there: three times as quick."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        return None
    about = os.statvfs(memory)
    enough = about.f_bavail * about.f_frsize > 2**30
    return memory if enough and not about.f_flag & os.ST_NOEXEC else None


@contextmanager
def folder_for_a_server():
    # Not in pytest's own folder, which other users may not enter and whose path is long.
    path = Path(tempfile.mkdtemp(prefix="posthouse-", dir=quick_folder())).resolve()
    yield path
    layout = Layout(path)
    if is_alive(layout):
        stop_server(layout, 30)
    shutil.rmtree(path)


@pytest.fixture
def data_dir():
    with folder_for_a_server() as path:
        yield path


@pytest.fixture(scope="module")
def shared_dir():
    """One for all tests of a module that leave the server as it is."""
    with folder_for_a_server() as path:
        yield path


@pytest.fixture(scope="session")
def finished_layout():
    with folder_for_a_server() as path:
        attach_server(path, settings=QUICK).close()
        yield Layout(path)


@pytest.fixture
def made_before(finished_layout, layout):
    """Fill the folder with a cluster made earlier: a copy takes less time than a new one."""
    shutil.copytree(finished_layout.cluster, layout.cluster)
    shutil.copy(finished_layout.state_file, layout.state_file)


@pytest.fixture
def layout(data_dir):
    return Layout(data_dir)


@pytest.fixture
def attach(data_dir):
    """Start another process that attaches to the server of the test."""
    processes = []

    def start():
        processes.append(AttachedProcess(data_dir))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


@pytest.fixture
def start(data_dir):
    """Call attach_server() with settings that suit a test; what is left open is closed afterwards."""
    servers = []

    def call(**options):
        settings = {**QUICK, **options.pop("settings", {})}
        servers.append(attach_server(data_dir, settings=settings, **options))
        return servers[-1]

    yield call
    for server in servers:
        server.close()


@pytest.fixture
def query():
    def run(url, statement):
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None

    return run
