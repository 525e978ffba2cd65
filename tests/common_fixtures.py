"""One Postgres for the whole run, a database of its own for every test."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import httpx
import psycopg
import pytest
from bench.stock import BINARIES, MISSING, stock_server

import posthouse
from databases import Databases
from enginekit import Engine, empty
from posthouse import testing
from posthouse.settings import Settings
from posthouse.storage.embedded import ensure, layout

OUTSIDE = os.environ.get("POSTHOUSE_TEST_DATABASE_URL", "")


_NEEDS_STOCK = pytest.mark.skipif(BINARIES is None, reason=MISSING)
EMBEDDED = pytest.param(None, id="embedded")
STOCK = pytest.param("stock", marks=_NEEDS_STOCK)
SOAK_STOCK = pytest.param("stock", marks=[_NEEDS_STOCK, pytest.mark.soak])


MEMORY = Path("/dev/shm")
MEMORY_BYTES = 6 * 2**30
SHARED = "SHARED_TEST_FOLDER"
"""The folder of the run's Postgres, in memory if there is enough: databases are a thousand files each."""


def pytest_configure(config):
    config.addinivalue_line("markers", "on_stock_server(soak=False): runs on a stock Postgres, too")
    if not hasattr(config, "workerinput"):
        in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
        shared = Path(tempfile.mkdtemp(prefix="posthouse-tests-", dir=MEMORY if in_memory else None))
        shared.chmod(0o755)  # as root, another account runs Postgres
        os.environ[SHARED] = str(shared)


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(SHARED), ignore_errors=True)


def pytest_xdist_auto_num_workers():
    """One more than cores: tests also wait. On two cores, three took 15 minutes where two took 17."""
    return 1 + (os.cpu_count() or 1)


def pytest_generate_tests(metafunc):
    wanted = metafunc.definition.get_closest_marker("on_stock_server")
    if wanted is not None and "server" in metafunc.fixturenames and not OUTSIDE:
        stock = SOAK_STOCK if wanted.kwargs.get("soak") else STOCK
        metafunc.parametrize("server", [EMBEDDED, stock], indirect=True, scope="session")


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside():
    for name in list(os.environ):
        if name.startswith("POSTHOUSE_") and name != "POSTHOUSE_TEST_DATABASE_URL":
            del os.environ[name]


@pytest.fixture(autouse=True, scope="session")
def _one_ssl_context():
    """httpx reads all root certificates for each client: 50 ms, an eighth of the Python time of the suite."""
    transports = httpx._transports.default
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transports, "create_ssl_context", functools.cache(transports.create_ssl_context))
        yield


def pytest_sessionfinish(session):
    """As root without user namespaces, data of this run is outside pytest's folder: see embedded.layout."""
    if os.geteuid() == 0 and not os.environ.get("PYTEST_XDIST_WORKER"):
        run_folder = session.config._tmp_path_factory.getbasetemp()
        for origin in (file for shared in layout.SHARED for file in shared.glob("*/moved-from")):
            if Path(origin.read_text().strip()).is_relative_to(run_folder):
                shutil.rmtree(origin.parent, ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    """Say how the time of the run is spread over the folders; with xdist the sum is that of all workers."""
    seconds = Counter()
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if hasattr(report, "duration"):
            seconds["/".join(report.nodeid.split("::")[0].split("/")[:-1][:3])] += report.duration
    if len(seconds) > 1:
        terminalreporter.section("seconds per folder")
        for folder, duration in seconds.most_common():
            terminalreporter.write_line(f"{duration:7.1f} s  {folder}")


@pytest.fixture(scope="session")
def server(request):
    """The URL of the Postgres that a test uses: the default one, or one with default settings."""
    is_stock = getattr(request, "param", None) == "stock"
    return request.getfixturevalue("stock" if is_stock else "default_server")


@pytest.fixture(scope="session")
def stock():
    """The URL of a Postgres of the distribution with default settings."""
    if BINARIES is None:
        pytest.skip(MISSING)
    with stock_server() as url:
        yield url


@pytest.fixture(scope="session")
def default_server():
    """The URL of a Postgres where databases may be made: an outside one, or the embedded one."""
    if OUTSIDE:
        yield OUTSIDE
        return
    # Tests crash Postgres on purpose elsewhere; here nothing outlives the run, so it need not sync.
    with ensure(Path(os.environ[SHARED]) / "postgres", settings={"fsync": "off"}) as embedded:
        yield embedded.admin_url_for()


@pytest.fixture(scope="session")
def databases(server):
    databases = Databases(server)
    yield databases
    databases.close()


@pytest.fixture
def database(databases):
    """The URL of a migrated database in which nothing has happened."""
    with databases.one() as url:
        yield url


@pytest.fixture(scope="session")
def shared_database(server):
    """One that tests of the engine share, emptied before each: making one takes longer than most of them."""
    with testing.database(server) as url:
        yield url


@pytest.fixture
def engine(shared_database):
    with psycopg.connect(shared_database, autocommit=True) as connection:
        empty(connection)
        yield Engine(connection, shared_database)


@pytest.fixture
def settings(database):
    """Quick beats, so that tests need not wait for them."""
    return Settings(
        database_url=database,
        heartbeat_seconds=0.2,
        lease_seconds=2.0,
        cancel_grace_seconds=0.5,
        rescue_grace_seconds=0.0,
        rescue_jitter_seconds=0.0,
        drain_seconds=5.0,
    )


@pytest.fixture
async def app(settings):
    async with posthouse.App(settings=settings) as app:
        yield app


@pytest.fixture
def db(database):
    """A plain connection, for looking and for calling SQL functions."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection
