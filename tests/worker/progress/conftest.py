"""What tests of progress share: handlers in the loop or in a thread, and what is stored of them."""

import pytest
from psycopg.rows import dict_row


@pytest.fixture
def parts(db):
    """The parts of a job by name."""

    def look(job_id):
        with db.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(
                "select * from posthouse.parts where job_id = %s order by ordinal", (job_id,)
            ).fetchall()
        return {row["name"]: row for row in rows}

    return look


@pytest.fixture
def steps(db):
    """The finished steps of a job: name and result, first to last."""
    return lambda job_id: db.execute(
        "select name, result from posthouse.steps where job_id = %s order by ordinal", (job_id,)
    ).fetchall()


@pytest.fixture
def lines(db):
    """The log of a job: (stream, level, text)."""
    return lambda job_id: db.execute(
        "select stream, level, text from posthouse.log_lines where job_id = %s order by sequence", (job_id,)
    ).fetchall()


@pytest.fixture
def report_statements(db):
    """How many statements reported progress so far; beats do not count."""
    db.execute("create table report_statements (at timestamptz)")
    db.execute(
        "create function count_report() returns trigger language plpgsql as "
        "'begin insert into report_statements values (clock_timestamp()); return null; end'"
    )
    db.execute(
        "create trigger count_reports after update of progress_percent on posthouse.running "
        "for each statement execute function count_report()"
    )
    return lambda: db.execute("select count(*) from report_statements").fetchone()[0]


@pytest.fixture
def cut_off(db):
    """Ends the connection on which workers write what jobs tell."""

    def cut():
        ended = db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'posthouse notes' and datname = current_database()"
        )
        assert ended.fetchall() == [(True,)]

    return cut
