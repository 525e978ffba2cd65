import os

import psycopg
import pytest


@pytest.fixture
def app_path():
    return "embeddings:app"


@pytest.fixture(autouse=True, scope="session")
def _converted_once(tmp_path_factory):
    """Convert the weights once per test run; concurrent processes wait."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBEDDINGS_CACHE", str(shared / "embeddings-cache"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _needs_pgvector(server):
    with psycopg.connect(server) as connection:
        found = connection.execute("select from pg_available_extensions where name = 'vector'").fetchone()
    if found is None:
        pytest.skip(
            "the Postgres that POSTHOUSE_TEST_DATABASE_URL names has no pgvector; the embedded one has"
        )
