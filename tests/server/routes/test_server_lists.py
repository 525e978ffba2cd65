"""A page of jobs costs the same for every caller and filter: at 75,000 finished jobs, through the API."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from posthouse import insights, testing
from posthouse.core.filters import parse_filter
from posthouse.core.states import Status
from posthouse.insights import JobFilter
from posthouse.insights.jobs import MAX_SCANNED
from posthouse.insights.search import SearchBudget
from posthouse.storage.connections import connect_async, tenant_transaction

N = 75_000
DAYS = 6
READY = 6_000
FILL = f"""
insert into posthouse.history (
  id, queued_at, scheduled_for, priority, attempt_count, max_attempts, generation, crashes, snoozes,
  tenant_id, kind, queue, source, payload, finished_at, status, outcome, subject)
select
  (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008000'
    || lpad(to_hex(n), 12, '0'))::uuid,
  at, at, 100, 1, 3, 1, 0, 0, case when n % 1000 = 3 then 'small' else 'big' end,
  case when n % 1500 = 0 then 'rare' else 'noop' end, 'default', 'manual', '{{}}', at,
  case when n % 10000 = 9 then 'dead_letter' when n % 500 = 4 then 'failed' when n % 2000 = 5 then 'canceled'
    else 'succeeded' end, 'x', case when n % 10 = 0 then 'thing-' || n end
from generate_series(1, {N}) as n
cross join lateral (select posthouse.now() - interval '{DAYS} days' * (1 - n / {N}::float8)) as t (at);
insert into posthouse.ready (
  id, queued_at, scheduled_for, priority, max_attempts, tenant_id, kind, queue, payload, lane)
select posthouse.new_id(), posthouse.now(), posthouse.now(), 100, 3, t.tenant, 'noop', 'default', '{{}}',
  posthouse.lane_number('default', 'noop', t.tenant, 100, 2)
from generate_series(1, {READY}) as n
cross join lateral (select case when n = 7 then 'small' else 'big' end) as t (tenant);
insert into posthouse.lanes (lane, queue, kind, tenant_id, priority, rank)
select distinct lane, queue, kind, tenant_id, priority, 2 from posthouse.ready;
"""
READ = """
select sum(idx_tup_fetch + seq_tup_read)::bigint from pg_stat_xact_user_tables
where schemaname = 'posthouse' and (relname like 'history%' or relname in ('ready', 'waiting', 'running'))
"""


@pytest.fixture(scope="module")
def filled_server(server):
    with testing.database(server) as url, psycopg.connect(url, autocommit=True) as db:
        for day in range(DAYS + 1):
            db.execute(
                "select posthouse.create_partition('history', "
                "(posthouse.now() - %s * interval '1 day')::date)",
                (day,),
            )
        db.execute(FILL)
        db.execute("vacuum analyze")
        yield url


async def look_at(db, tenant, line=None, budget=None, **chosen):
    within = JobFilter(tenant=tenant, **chosen)
    if line is None:
        return await insights.page_of_jobs(db, within)
    return await insights.find_jobs(db, parse_filter(line), within, **({"budget": budget} if budget else {}))


@pytest.fixture(scope="module")
def page(filled_server):
    """Returns a page, and how many rows were read for it: for the second time, when plans are there.

    All tests share a connection: to warm up one of its own would take most of the time of each. Its counters
    go on from one transaction to the next until they are flushed.
    """

    async def rows_read(db):
        (read,) = await (await db.execute(READ)).fetchone()
        return read

    async def look(connection, tenant, **chosen):
        for _ in range(2):
            async with tenant_transaction(connection, tenant, seconds=60) as db:
                before = await rows_read(db)
                found = await look_at(db, tenant, **chosen)
                read = await rows_read(db) - before
        return found.jobs, found.after, read

    with asyncio.Runner() as runner:
        connection = runner.run(connect_async(filled_server, "test"))
        yield lambda tenant, **chosen: runner.run(look(connection, tenant, **chosen))
        runner.run(connection.close())


AGO = timedelta(days=DAYS / 2)
TIMES = {
    "ever": {},
    "after": {"created_after": datetime.now(UTC) - AGO},
    "before": {"created_before": datetime.now(UTC) - AGO},
}


# Over all tenants, statuses are sifted: see below.
CHOSEN = [(tenant, status) for tenant in ("big", "small") for status in (None, *Status)]


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(("tenant", "status"), [*CHOSEN, (None, None)])
def test_a_page_is_read_from_the_indexes(page, tenant, times, status):
    _, _, read = page(tenant, **TIMES[times], **({"statuses": [status]} if status else {}))
    hour = N / DAYS / 24
    assert read < 1500 + (3 * hour if times != "ever" else 0)


@pytest.mark.parametrize("chosen", [{"kind": "none"}, {"source": "event"}, {"queue": "nowhere"}])
@pytest.mark.parametrize("tenant", ["big", "small", None])
def test_what_is_hardly_there_is_looked_for_in_bounded_steps(page, tenant, chosen):
    found, following, read = page(tenant, **chosen)
    assert found == []
    assert read < 2 * MAX_SCANNED * len(Status)
    assert (following is None) == (tenant == "small")


def test_pages_that_look_in_steps_find_everything_once(filled_server, page):
    seen, after = [], None
    while True:
        found, after, _ = page("big", kind="rare", after=after, limit=20)
        seen += [job.id for job in found]
        if after is None:
            break
    with psycopg.connect(filled_server) as db:
        wanted = db.execute(
            "select id from posthouse.jobs where tenant_id = 'big' and kind = 'rare' order by id desc"
        ).fetchall()
    assert seen == [job for (job,) in wanted]


INDEXED = [
    "",
    "status:failed",
    "status:dead_letter,canceled",
    "-status:succeeded",
    "-status:succeeded kind:noop",
    "status:queued",
    "status:running",
    "subject:thing-5000",
    "subject:thing-5000,thing-9990 kind:noop",
    "thing-5000",
    "correlation:none",
    "id:0001",
    "created:<1h",
    "created:>2099-01-01",
    "nothing-of-the-kind",
]


@pytest.mark.parametrize("line", INDEXED)
@pytest.mark.parametrize("tenant", ["big", "small", None])
def test_terms_that_have_an_index_are_found_by_it(page, tenant, line):
    """With eight branches that read a window each, at most."""
    _, following, read = page(tenant, line=line, limit=20)
    assert read < 3000 + N / DAYS / 24
    assert following is None or line in {"", "created:<1h"} or "status" in line


@pytest.mark.parametrize("line", ["payload.a:1", "kind:none", "worker:absent", "attempts:>5", "error:never"])
@pytest.mark.parametrize("tenant", ["big", "small", None])
def test_other_terms_are_looked_for_with_a_bounded_effort(page, tenant, line):
    found, following, read = page(tenant, line=line, budget=SearchBudget(5000, 60))
    assert found == []
    assert read < 5 * 8 * 5000
    if tenant != "small" and line != "error:never":
        assert following is not None


def test_pages_by_a_filter_find_everything_once(filled_server, page):
    for tenant in ("big", None):
        seen, after, pages = [], None, 0
        while True:
            found, after, _ = page(
                tenant, line="kind:rare", after=after, limit=7, budget=SearchBudget(10_000, 60)
            )
            seen += [job.id for job in found]
            pages += 1
            if after is None:
                break
        with psycopg.connect(filled_server) as db:
            wanted = db.execute(
                "select id from posthouse.jobs where kind = 'rare' and tenant_id = coalesce(%s, tenant_id) "
                "order by id desc",
                (tenant,),
            ).fetchall()
        assert seen == [job for (job,) in wanted]
        assert pages > len(seen) / 7


def test_counts_do_not_go_through_history(filled_server):
    async def count(line):
        async with (
            await connect_async(filled_server, "test") as connection,
            tenant_transaction(connection, None, seconds=60) as db,
        ):
            found = await insights.count_found(db, parse_filter(line))
            (read,) = await (await db.execute(READ)).fetchone()
        return found, read

    some, read = asyncio.run(count("status:succeeded"))
    assert (some.count, some.exact) == (10_000, False)
    assert read < N / 2
    few, _ = asyncio.run(count("status:failed"))
    assert (few.count, few.exact) == (N // 500, True)
