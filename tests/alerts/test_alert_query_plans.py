"""A look for alerts reads what is new, however much there is."""

import psycopg
import pytest

from posthouse import testing

TYPES = "'{job_max_retries_exceeded,stale_job_recovered,job_failed_pattern}'"
N = 40_000
FILL = f"""
insert into posthouse.history (
  id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts, tenant_id, kind, queue,
  generation, crashes, snoozes, source, attempt_started_at, finished_at, status, outcome, error)
select gen_random_uuid(), now(), now(), now(), 100, 3, 3, 'default', 'task', 'default', 1, 0, 0, 'manual',
  now(), now() - make_interval(secs => 10 + n % 3000),
  case when n % 2 = 0 then 'dead_letter' else 'succeeded' end, 'x', '{{"type": "E"}}'
from generate_series(1, {N}) as n;
insert into posthouse.past_attempts (
  job_id, tenant_id, kind, generation, attempt, token, started_at, finished_at, outcome, error)
select gen_random_uuid(), 'default', 'task', 1, 1, gen_random_uuid(), now(),
  now() - make_interval(secs => 10 + n % 3000), 'lost', '{{"type": "E"}}'
from generate_series(1, {N}) as n;
insert into posthouse.alerts (at, type, subject, message, dedupe_key, state, posted_at)
select now() - interval '1 hour', 'queue_stuck', 'q' || n, 'x', 'x ' || n,
  case when n % 2 = 0 then 'suppressed' else 'posted' end,
  case when n % 2 = 1 then now() - interval '1 hour' end
from generate_series(1, {N}) as n;
update posthouse.alert_cursor set scanned_until = now(), checkpoint_at = now();
analyze;
"""
READ = """
select coalesce(sum(n), 0) from (
  select seq_tup_read as n from pg_stat_user_tables where schemaname = 'posthouse' union all
  select idx_tup_read from pg_stat_user_indexes where schemaname = 'posthouse') as r
"""


@pytest.fixture(scope="module")
def full(server):
    with testing.database(server) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute("set stats_fetch_consistency = none")
        yield connection


def rows_read(connection, statement):
    def count():
        connection.execute("select pg_stat_force_next_flush()")
        return connection.execute(READ).fetchone()[0]

    before = count()
    connection.execute(statement)
    return count() - before


def test_the_row_counter_detects_a_full_table_scan(full):
    assert rows_read(full, "select max(ctid) from posthouse.history") >= N


def test_a_look_that_finds_nothing_reads_next_to_nothing(full):
    full.execute(f"select posthouse.detect_alerts({TYPES})")
    assert rows_read(full, f"select posthouse.detect_alerts({TYPES})") < N / 20


def test_posting_reads_only_new_and_recent_alerts(full):
    full.execute(f"select posthouse.post_alerts({TYPES}, '{{ops}}')")
    assert rows_read(full, f"select posthouse.post_alerts({TYPES}, '{{ops}}')") < N / 20


def test_the_look_for_patterns_reads_no_more_than_it_may(full):
    assert rows_read(full, f"select posthouse.detect_alerts({TYPES}, 5)") < 1.1 * N
