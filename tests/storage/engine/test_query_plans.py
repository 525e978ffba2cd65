"""The hot statements read what they need and no more, at 50,000 jobs in every place.

Their plans live inside functions, so it is counted what was read: rows of tables and entries of indexes,
before and after. Who reads a table through, or all of an index, has read 50,000.
"""

import asyncio
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest

from posthouse import insights, testing
from posthouse.core.filters import parse_filter
from posthouse.insights import JobFilter
from posthouse.storage.connections import connect_async, tenant_transaction
from posthouse.storage.queries import query
from support.engine import Engine
from support.waiting import eventually_sync

pytestmark = pytest.mark.on_stock_server(soak=True)

N = 50_000
BIG = ("ready", "waiting", "history", "past_attempts", "payloads", "dedupe_keys", "job_dependencies")
JOB = "id, queued_at, scheduled_for, priority, max_attempts, tenant_id, kind, queue, source, payload"
ROW = "{id}, now(), now(), 100, 3, 'default', 'k' || n % 20, 'default', 'manual', '{{}}'"


def ids(suffix):
    """Ids that rise with n: random ones take several times as long to index."""
    return f"('0000000{suffix}-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"


FILL = f"""
insert into posthouse.lanes (lane, queue, kind, tenant_id, priority, rank)
  select posthouse.lane_number('default', 'k' || n, 'default', 100, 2), 'default', 'k' || n, 'default', 100, 2
  from generate_series(0, 19) n;
insert into posthouse.ready ({JOB}, lane)
  select {ROW.format(id=ids(1))}, l.lane
  from generate_series(1, {N}) n join posthouse.lanes l on l.kind = 'k' || n % 20 order by n;
insert into posthouse.waiting ({JOB}, due_at)
  select {ROW.format(id=ids(2))}, now() + interval '1 hour' from generate_series(1, {N}) n;
insert into posthouse.history (
    {JOB}, attempt_count, generation, crashes, snoozes, finished_at, outcome, status)
  select {ROW.format(id=ids(3))}, 1, 1, 0, 0, now(), 'x',
         case when n % 500 = 0 then 'failed' else 'succeeded' end
  from generate_series(1, {N}) n;
update posthouse.history set tenant_id = 'small'
  where mod(('x' || right(id::text, 6))::bit(24)::int, 5000) in (0, 1);
insert into posthouse.past_attempts (
    job_id, tenant_id, kind, generation, attempt, started_at, finished_at, outcome)
  select {ids(4)}, 'default', 'k', 1, 1, now(), now(), 'failed' from generate_series(1, {N}) n;
insert into posthouse.payloads (job_id, body) select {ids(5)}, '{{}}' from generate_series(1, {N}) n;
insert into posthouse.dedupe_keys (tenant_id, dedupe_key, job_id)
  select 'default', 'key ' || n, {ids(6)} from generate_series(1, {N}) n;
insert into posthouse.job_dependencies (depends_on, job_id)
  select {ids(7)}, {ids(8)} from generate_series(1, {N}) n;
"""


@pytest.fixture(scope="module")
def filled_engine(server):
    """A database with many jobs in every place; each test adds its own few."""
    with testing.database(server) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL)
        # As autovacuum leaves them: or plans would change when it comes by in the middle of the tests.
        connection.execute("vacuum (analyze)")
        # The counters of this session must be seen at once.
        connection.execute("set stats_fetch_consistency = none")
        yield Engine(connection, url)


def scanned(engine, work):
    """Of which big tables the work read more than a tenth, and what it returned."""
    before = rows_read(engine)
    answer = work()
    after = rows_read(engine)
    read = {table: after[table] - before[table] for table in BIG}
    return {table: n for table, n in read.items() if n > N / 10}, answer


def rows_read(engine):
    engine.connection.execute("select pg_stat_force_next_flush()")
    found = engine.rows(
        """select regexp_replace(relname, '_([0-9]{8}|default)$', '') as name, sum(n) as n
           from (select relname, seq_tup_read as n from pg_stat_user_tables where schemaname = 'posthouse'
                 union all
                 select relname, idx_tup_read from pg_stat_user_indexes where schemaname = 'posthouse') as r
           group by 1"""
    )
    return {row.name: row.n for row in found}


def test_the_row_counter_detects_a_full_table_scan(filled_engine):
    """Or none of the tests below could fail."""
    for table in BIG:
        read, _ = scanned(
            filled_engine, lambda table=table: filled_engine.rows(f"select max(ctid) from posthouse.{table}")
        )
        assert list(read) == [table]
    filled_engine.connection.execute("set enable_seqscan = off")
    read, _ = scanned(
        filled_engine, lambda: filled_engine.rows("select max(kind) from posthouse.ready where lane > 0")
    )
    filled_engine.connection.execute("reset enable_seqscan")
    assert list(read) == ["ready"]


def test_a_claim_of_many_kinds_reads_the_heads_of_their_lanes(filled_engine):
    kinds = [f"k{n}" for n in range(20)]
    read, jobs = scanned(filled_engine, lambda: filled_engine.claim(200, kinds=kinds))
    assert len(jobs) == 200
    assert read == {}


def test_a_claim_behind_marks_reads_only_behind_them(filled_engine):
    [job] = filled_engine.claim(1, kinds=["k1"])
    read, jobs = scanned(
        filled_engine, lambda: filled_engine.claim(50, kinds=["k1"], lane_cursors={job.lane: job.position})
    )
    assert len(jobs) == 50
    assert read == {}


def test_a_claim_that_finds_nothing_reads_nothing(filled_engine):
    assert scanned(filled_engine, lambda: filled_engine.claim(50, kinds=["unknown"])) == ({}, [])


def test_a_batch_of_successes_reads_no_table_through(filled_engine):
    jobs = filled_engine.claim(200, kinds=["k2"])
    assert scanned(filled_engine, lambda: filled_engine.succeed(*jobs)) == ({}, [])


def test_mending_lanes_steps_from_head_to_head(filled_engine):
    assert (
        scanned(filled_engine, lambda: filled_engine.value("select posthouse.restore_missing_lanes()"))[0]
        == {}
    )


@pytest.mark.parametrize("event", ["retry", "release", "fail", "exhaust", "cancel"])
def test_every_other_outcome_reads_no_table_through(filled_engine, event):
    jobs = filled_engine.claim(20, kinds=["k3"])
    assert scanned(filled_engine, lambda: filled_engine.settle_many(jobs, event, "x", 0.0)) == ({}, [])


def test_a_report_that_lost_its_lease_reads_no_table_through(filled_engine):
    job = filled_engine.claim_one(kinds=["k4"])
    stale = job._replace(token=uuid4())
    assert scanned(filled_engine, lambda: filled_engine.succeed(stale)) == ({}, [job.id])
    assert scanned(filled_engine, lambda: filled_engine.settle(stale, "fail")) == ({}, [job.id])


def test_promotion_reads_what_is_due(filled_engine):
    filled_engine.enqueue(
        "k5", scheduled_for="2020-01-01T00:00:00Z", depends_on=[filled_engine.enqueue("k5")]
    )
    filled_engine.connection.execute(
        "update posthouse.waiting set due_at = now() - interval '1 minute' "
        "where id in (select id from posthouse.waiting where blockers = 0 limit 50)"
    )
    read, moved = scanned(filled_engine, filled_engine.promote)
    assert moved == 50
    assert read == {}
    assert scanned(filled_engine, lambda: filled_engine.value("select posthouse.next_due()"))[0] == {}


def test_the_sweep_of_edges_reads_the_young_ones(filled_engine):
    cursor = filled_engine.value("select posthouse.recheck_dependencies()::text")

    def moved_on():
        """Past the edges of the fill; other tests' transactions hold it back while they last."""
        nonlocal cursor
        cursor = filled_engine.value("select posthouse.recheck_dependencies(%s::xid8[])::text", cursor)
        return filled_engine.value(
            "select max(xid) < (%s::xid8[])[1] from posthouse.job_dependencies", cursor
        )

    eventually_sync(moved_on)
    read, _ = scanned(
        filled_engine,
        lambda: filled_engine.rows("select posthouse.recheck_dependencies(%s::xid8[])::text", cursor),
    )
    assert read == {}


def test_rescue_of_a_dead_workers_jobs_reads_only_what_runs(filled_engine):
    worker = filled_engine.register(uuid4())
    jobs = filled_engine.claim(100, kinds=["k6"], worker=worker)
    filled_engine.connection.execute("select posthouse.sign_off(%s)", (worker,))
    read, rescued = scanned(filled_engine, lambda: filled_engine.rescue([worker]))
    assert set(rescued) == {job.id for job in jobs}
    assert read == {}


def test_a_heartbeat_reads_only_what_it_renews(filled_engine):
    jobs = filled_engine.claim(100, kinds=["k7"])
    assert scanned(filled_engine, lambda: filled_engine.heartbeat(*jobs)) == ({}, {})


def test_enqueue_with_every_option_reads_no_table_through(filled_engine):
    first = filled_engine.enqueue("k8")

    def enqueue():
        return filled_engine.enqueue_many(
            {"kind": "k8"},
            {"kind": "k8", "dedupe_key": "key 77"},
            {"kind": "k8", "id": uuid4(), "verify": True, "dedupe_key": f"new {uuid4()}", "order_key": "o"},
            {"kind": "k8", "depends_on": [first], "payload": {"x": "y" * 5_000}},
        )

    read, answers = scanned(filled_engine, enqueue)
    assert [outcome for _, outcome in answers] == ["created", "existing", "created", "created"]
    assert read == {}


def test_cancel_and_reopen_read_no_table_through(filled_engine):
    queued = filled_engine.enqueue("k9", delay=60)
    assert scanned(filled_engine, lambda: filled_engine.cancel(queued)) == ({}, "canceled")
    assert scanned(filled_engine, lambda: filled_engine.reopen(queued)) == ({}, "queued")


def test_one_job_is_found_by_its_id_wherever_it_is(filled_engine):
    for table in ("ready", "waiting", "history"):
        job_id = filled_engine.value(f"select id from posthouse.{table} limit 1")
        read, job = scanned(filled_engine, lambda job_id=job_id: filled_engine.job(job_id))
        assert job.id == job_id
        assert read == {}
    read, ending = scanned(filled_engine, lambda: filled_engine.rows(query("job_result"), job_id))
    assert ending[0].status == "succeeded"
    assert read == {}


def test_attempts_of_one_job_are_found_by_its_id(filled_engine):
    # One of the fill: jobs of other tests have several attempts, and "limit 1" returns any.
    job_id = filled_engine.value(f"select {ids(4)} from (values (1)) as v (n)")
    read, attempts = scanned(
        filled_engine,
        lambda: filled_engine.rows("select * from posthouse.attempts where job_id = %s", job_id),
    )
    assert len(attempts) == 1
    assert read == {}


def test_the_unsuccessful_are_listed_without_reading_the_successful(filled_engine):
    read, jobs = scanned(
        filled_engine,
        lambda: filled_engine.rows(
            "select id from posthouse.history where tenant_id = 'default' and status = 'failed' "
            "order by finished_at desc limit 50"
        ),
    )
    assert len(jobs) == 50
    assert read == {}


LISTS = {
    "the newest": {},
    "one status": {"statuses": ["succeeded"]},
    "the unsuccessful": {"statuses": ["failed", "dead_letter"]},
    "one kind": {"kind": "k1"},
    "from a cursor on": {"after": UUID("00000003-0000-7000-8000-000000005000")},
    "of some time": {"created_before": datetime(2200, 1, 1, tzinfo=UTC)},
}


def seen_by_small(engine, look):
    """What a tenant with 20 of 50,000 jobs sees, all of which ended today."""

    async def run():
        async with (
            await connect_async(engine.url, "test") as connection,
            tenant_transaction(connection, "small", seconds=60) as db,
        ):
            return await look(db)

    return asyncio.run(run())


@pytest.mark.parametrize("chosen", LISTS.values(), ids=LISTS)
def test_a_small_tenant_lists_its_jobs_without_reading_those_of_others(filled_engine, chosen):
    wanted = JobFilter(tenant="small", **chosen)
    read, page = scanned(
        filled_engine, lambda: seen_by_small(filled_engine, lambda db: insights.page_of_jobs(db, wanted))
    )
    assert 0 < len(page.jobs) <= 20
    assert {job.tenant_id for job in page.jobs} == {"small"}
    assert read == {}


def test_a_small_tenant_searches_its_jobs_without_reading_those_of_others(filled_engine):
    wanted, within = parse_filter("-status:succeeded kind:k0"), JobFilter(tenant="small")
    read, page = scanned(
        filled_engine, lambda: seen_by_small(filled_engine, lambda db: insights.find_jobs(db, wanted, within))
    )
    assert len(page.jobs) == 10
    assert read == {}


def test_a_small_tenants_jobs_are_counted_without_reading_those_of_others(filled_engine):
    read, found = scanned(
        filled_engine,
        lambda: seen_by_small(filled_engine, lambda db: insights.jobs_summary(db, tenant="small")),
    )
    assert (found.counts.succeeded, found.counts.failed) == (10, 10)
    assert read == {}


LEFT_BEHIND = f"""
insert into posthouse.running ({JOB}, attempt_count, generation, crashes, snoozes, started_at, lane,
    position, token, worker_id, attempt_started_at, lease_expires_at)
  select {ROW.format(id=ids(9))}, 1, 1, 0, 0, now(), 1,
    n, gen_random_uuid(), gen_random_uuid(), now(), now()
  from generate_series(1, 6000) n;
delete from posthouse.running;
"""


@pytest.fixture
def bloated_engine(own_engine):
    """An old transaction blocks vacuum: running is full of dead rows, and its statistics say
    that it is empty.
    """
    with own_engine.new_connection(autocommit=False) as pinning:
        pinning.connection.execute("set transaction isolation level repeatable read")
        pinning.rows("select 1")
        own_engine.connection.execute(LEFT_BEHIND)
        own_engine.connection.execute("vacuum (analyze) posthouse.running")
        own_engine.connection.execute("set stats_fetch_consistency = none")
        for _ in range(20):
            own_engine.enqueue()
        yield own_engine


WORK_ON_LEASES = {
    "success": lambda engine, jobs: engine.succeed(*jobs),
    "another outcome": lambda engine, jobs: engine.settle_many(jobs, "fail"),
    "a heartbeat": lambda engine, jobs: engine.heartbeat(*jobs),
}


@pytest.mark.parametrize("name", WORK_ON_LEASES)
def test_under_a_pinned_horizon_only_what_is_held_is_read(bloated_engine, name):
    jobs = bloated_engine.claim(20)
    before = rows_read(bloated_engine)["running"]
    WORK_ON_LEASES[name](bloated_engine, jobs)
    assert rows_read(bloated_engine)["running"] - before < 1_000


def test_looking_for_batches_reads_one_batch_of_each_kind(filled_engine):
    ask = "select * from posthouse.ready_batches(%s, '{default}', %s, %s)"
    kinds = [f"k{n}" for n in range(20)]
    read, found = scanned(
        filled_engine, lambda: filled_engine.rows(ask, filled_engine.worker, kinds, [50] * 20)
    )
    assert {row.jobs for row in found} == {50}
    assert read == {}


def test_a_claim_of_a_whole_batch_reads_the_head_of_its_lane(filled_engine):
    read, jobs = scanned(filled_engine, lambda: filled_engine.claim(50, kinds=["k4"], min_jobs=50))
    assert len(jobs) == 50
    assert read == {}


def test_an_erasure_reads_only_the_jobs_of_its_subject(filled_engine):
    filled_engine.enqueue("k5", subject="customer-7")
    filled_engine.enqueue("k5", subject="customer-7", scheduled_for="2100-01-01T00:00:00Z")
    read, found = scanned(
        filled_engine, lambda: filled_engine.row("select * from posthouse.erase('customer-7')")
    )
    assert (found.state, found.jobs) == ("erased", 2)
    assert read == {}
