"""Each finding of the doctor, provoked."""

import asyncio
import contextlib
import signal
import struct
from datetime import timedelta

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from posthouse import testing
from posthouse.insights.doctor import CHECKS, Thresholds, run_checks
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from posthouse.storage.embedded import attach_server
from support.pgbouncer import PGBOUNCER, running_pgbouncer
from support.processes import alive
from support.waiting import eventually


@pytest.fixture
def findings(database, settings):
    """Examines the test's database; returns findings by name."""

    async def look(url=database, chosen=settings, **thresholds):
        found = await run_checks(url, chosen, Thresholds(**thresholds))
        return {finding.check: finding for finding in found}

    return look


@pytest.fixture(scope="module")
def small_server(tmp_path_factory):
    """A durable server with few connections that takes prepared transactions."""
    settings = {"max_connections": "20", "max_prepared_transactions": "2", "shared_buffers": "16MB"}
    # It is made without syncing, which is quicker, and syncs from then on.
    with attach_server(tmp_path_factory.mktemp("small"), settings={**settings, "fsync": "off"}) as server:
        with psycopg.connect(server.admin_url_for(), autocommit=True) as connection:
            connection.execute("alter system set fsync = on")
            connection.execute("select pg_reload_conf()")
        yield server.admin_url_for()


@pytest.fixture
def small_database(small_server):
    with testing.database(small_server) as url:
        yield url


async def test_a_healthy_queue_has_no_findings(app, findings, small_database):
    app = type(app)(settings=Settings(database_url=small_database))

    @app.job()
    async def mail() -> None: ...

    keeper = Keeper(small_database, app.settings)
    worker = await app.worker()
    await worker.start()
    await keeper.start()
    connected = (
        "select count(*) > 0 from pg_stat_activity "
        "where datname = current_database() and application_name = 'posthouse keeper'"
    )
    try:
        with psycopg.connect(small_database, autocommit=True) as db:
            await eventually(lambda: db.execute(connected).fetchone() == (True,), what="a connected keeper")
        found = await findings(small_database, app.settings)
    finally:
        await worker.stop()
        await keeper.stop()
        await app.close()
    assert {name: finding.severity for name, finding in found.items() if finding.severity != "ok"} == {}
    assert list(found) == ["database", *CHECKS]


async def test_settings_that_cost_speed_are_hints_with_what_to_do(stock, server, findings):
    found = (await findings(stock))["speed"]
    assert found.severity == "ok"
    for name in ("max_wal_size", "shared_buffers", "random_page_cost"):
        assert name in found.summary
        assert name in found.advice
    assert "jit" not in found.summary, "connections of ours have it off"
    tuned = (await findings(server))["speed"]
    assert (tuned.severity, tuned.advice) == ("ok", "")


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")
async def test_jit_behind_a_pooler_is_named(stock, findings):
    with running_pgbouncer(stock) as pooler:
        found = (await findings(pooler.url_for(stock)))["speed"]
    assert 'alter database "postgres" set jit = off' in found.advice


async def test_an_unreachable_database_is_a_finding(findings):
    found = await findings("postgresql://nobody@127.0.0.1:1/nothing")
    assert list(found) == ["database"]
    assert found["database"].severity == "error"
    assert "POSTHOUSE_DATABASE_URL" in found["database"].advice


async def test_a_database_without_schema_is_told_to_migrate(server, findings):
    found = await findings(server)
    assert found["schema"].severity == "error"
    assert "posthouse migrate" in found["schema"].advice
    assert "stuck" not in found


NEWEST = "number = (select max(number) from posthouse.migrations)"


@pytest.mark.parametrize(
    ("change", "severity", "advice"),
    [
        (f"delete from posthouse.migrations where {NEWEST}", "error", "posthouse migrate"),
        ("update posthouse.installed_functions set digest = 'older'", "warning", "posthouse migrate"),
        ("insert into posthouse.migrations values (9999, 'x', now(), '99.0.0')", "error", "Upgrade"),
        ("insert into posthouse.migrations values (9999, 'x', now(), '0.1.0')", "ok", ""),
    ],
)
async def test_a_schema_of_another_version_is_named(findings, db, change, severity, advice):
    db.execute(change)
    schema = (await findings())["schema"]
    assert schema.severity == severity
    assert advice in (schema.advice or "")


async def test_an_idle_transaction_that_pins_the_horizon_is_named_with_its_pid(database, findings):
    options = {"application_name": "forgotten report", "autocommit": True}
    with psycopg.connect(database, **options) as idle:
        idle.execute("begin isolation level repeatable read")
        idle.execute("select 'a query that is worth seeing'")
        pid = idle.info.backend_pid
        found = (await findings(horizon_warning_seconds=0.0))["horizon"]
    assert found.severity == "warning"
    holder = found.evidence[0]
    assert holder["pid"] == pid
    assert (holder["application"], holder["state"]) == ("forgotten report", "idle in transaction")
    assert "worth seeing" in holder["query"]
    assert str(pid) in found.summary
    assert f"pg_terminate_backend({pid})" in found.advice


async def test_a_transaction_is_an_error_only_when_it_has_been_open_for_long(database, findings):
    with psycopg.connect(database) as idle:
        idle.execute("create table mine ()")
        assert (await findings())["horizon"].severity == "ok"
        assert (await findings(horizon_error_seconds=0.0))["horizon"].severity == "error"


async def test_a_prepared_transaction_is_named(small_database, findings):
    with psycopg.connect(small_database, autocommit=True) as connection:
        connection.execute("begin; create table mine ()")
        connection.execute("prepare transaction 'left behind'")
        found = (await findings(small_database, horizon_warning_seconds=0.0))["horizon"]
        connection.execute("rollback prepared 'left behind'")
    assert found.severity == "warning"
    assert "left behind" in found.summary


async def test_dead_rows_that_pile_up_are_counted_by_table(findings, db, enqueue):
    for _ in range(5):
        db.execute("select posthouse.cancel(%s)", (enqueue("mail"),))
    db.execute("select pg_stat_force_next_flush()")
    assert (await findings())["bloat"].severity == "ok"
    found = (await findings(dead_rows=5))["bloat"]
    assert found.severity == "warning"
    dead = {row["table"]: row["dead"] for row in found.evidence}  # a database used again has some elsewhere
    assert dead["ready"] >= 5


async def test_a_table_that_is_not_vacuumed_is_an_error(findings, db):
    db.execute("alter table posthouse.running set (autovacuum_enabled = off)")
    found = (await findings())["bloat"]
    assert found.severity == "error"
    assert [row["table"] for row in found.evidence] == ["running"]


async def test_a_missing_partition_is_found_and_the_keeper_mends_it(findings, settings, db):
    tomorrow = db.execute("select (posthouse.now() at time zone 'UTC')::date + 1").fetchone()[0]
    db.execute(f"drop table posthouse.history_{tomorrow:%Y%m%d}")
    found = (await findings())["partitions"]
    assert (found.severity, found.evidence) == ("error", [{"table": "history", "day": tomorrow}])

    keeper = Keeper(settings.database_url, settings)
    await keeper.retention.run_once()
    await keeper.stop()
    assert (await findings())["partitions"].severity == "ok"


async def test_rows_in_the_default_partition_are_counted(app, findings, db, enqueue):
    job = enqueue("mail")
    async with testing.clock(app) as clock:
        await clock.advance("60d")
        db.execute("select posthouse.cancel(%s)", (job,))
    found = (await findings())["partitions"]
    assert found.severity == "warning"
    assert {"relation": "history", "rows": 1} in found.evidence
    assert "past_attempts" not in str(found.evidence)


async def test_without_a_keeper_overdue_jobs_are_an_error(app, findings, enqueue):
    assert (await findings())["keeper"].severity == "warning"
    enqueue("mail", delay="1 minute")
    async with testing.clock(app) as clock:
        await clock.advance("5m")
        found = (await findings())["keeper"]
    assert (found.severity, found.evidence[0]["overdue"]) == ("error", 1)


async def test_an_expired_lease_that_was_not_rescued_is_reported(app, findings, enqueue, fleet):
    job = enqueue("mail")
    fleet.claim(fleet.register(name="rider"))
    assert (await findings())["leases"].severity == "ok"
    async with testing.clock(app) as clock:
        await clock.advance("5m")
        found = (await findings())["leases"]
    assert found.severity == "error"
    assert [(row["id"], row["worker_name"]) for row in found.evidence] == [(job, "rider")]


async def test_a_worker_that_was_killed_is_named(app, findings, posthouse, db):
    worker = posthouse.start("worker", "--app", posthouse.write_app(), "--no-keeper")
    assert "worker started" in worker.line()
    (pid,) = db.execute("select pid from posthouse.workers").fetchone()
    assert (await findings())["workers"].severity == "ok"
    worker.stop(signal.SIGKILL)
    await eventually(lambda: not alive(pid), what="the end of its child process, which may still beat")
    async with testing.clock(app) as clock:
        await clock.advance("1m")
        found = (await findings())["workers"]
    assert (found.severity, [row["pid"] for row in found.evidence]) == ("warning", [pid])


async def test_kinds_that_no_live_worker_knows_are_named(app, findings, enqueue, fleet):
    fleet.register(kinds=["mail"])
    enqueue("mail")
    for _ in range(2):
        enqueue("letter", queue="post")
    found = (await findings())["unserved"]
    assert found.severity == "warning"
    assert [(row["queue"], row["kind"], row["jobs"]) for row in found.evidence] == [("post", "letter", 2)]
    async with testing.clock(app) as clock:
        await clock.advance("2m")
        assert (await findings())["unserved"].severity == "warning"


async def test_a_kind_without_a_definition_is_named_as_such(findings, db, enqueue):
    enqueue("letter")
    assert "letter in default (1, no definition)" in (await findings())["unserved"].summary
    db.execute('select posthouse.announce(\'[{"key": "letter"}]\')')
    found = (await findings())["unserved"].summary
    assert "letter in default (1)" in found


async def test_a_queue_whose_workers_take_nothing_is_stuck(app, findings, db, enqueue, fleet):
    worker = fleet.register(concurrency=1)
    enqueue("mail")
    assert (await findings())["stuck"].severity == "ok"
    async with testing.clock(app) as clock:
        await clock.advance("2m")
        fleet.beat(worker)
        found = (await findings())["stuck"]
    assert (found.severity, found.evidence[0]["queue"], found.evidence[0]["free"]) == ("error", "default", 1)


async def test_a_queue_whose_workers_are_full_is_only_a_warning(app, findings, db, enqueue, fleet):
    worker = fleet.register(concurrency=1)
    enqueue("mail")
    fleet.claim(worker, lease="1 hour")
    enqueue("mail")
    async with testing.clock(app) as clock:
        await clock.advance("2m")
        fleet.beat(worker)
        assert (await findings())["stuck"].severity == "warning"


async def test_a_deep_queue_that_moves_is_not_stuck(app, findings, db, enqueue, fleet):
    worker = fleet.register(concurrency=5)
    for _ in range(2):
        enqueue("mail")
    async with testing.clock(app) as clock:
        await clock.advance("2m")
        fleet.beat(worker)
        fleet.claim(worker)
        assert (await findings())["stuck"].severity == "ok"


@pytest.mark.parametrize(("by", "where"), [(timedelta(hours=1), "ahead"), (timedelta(hours=-1), "behind")])
async def test_a_clock_that_differs_is_named(findings, db, by, where):
    db.execute(
        "create or replace function posthouse.now() returns timestamptz language sql stable "
        f"as $$ select clock_timestamp() + interval '{by.total_seconds()} seconds' $$"
    )
    found = (await findings())["clock"]
    assert found.severity == "warning"
    assert where in found.summary
    assert "3,600" in found.summary or "3,599" in found.summary


async def test_a_server_that_does_not_sync_is_an_error(findings, db):
    if db.execute("show fsync").fetchone()[0] == "on":
        pytest.skip("this server syncs")
    found = (await findings())["durability"]
    assert (found.severity, found.evidence[0]["fsync"]) == ("error", False)


async def test_commits_that_do_not_wait_for_the_disk_are_a_warning(small_database, findings):
    name = conninfo_to_dict(small_database)["dbname"]
    with psycopg.connect(small_database, autocommit=True) as connection:
        connection.execute(f"alter database {name} set synchronous_commit = off")
    assert (await findings(small_database))["durability"].severity == "warning"


async def test_running_out_of_connections_is_announced(small_database, findings):
    with contextlib.ExitStack() as stack:
        for _ in range(13):
            stack.enter_context(psycopg.connect(small_database))
        assert (await findings(small_database))["connections"].severity == "warning"
        for _ in range(3):
            stack.enter_context(psycopg.connect(small_database))
        found = (await findings(small_database))["connections"]
    assert (found.severity, found.evidence[0]["allowed"]) == ("error", 17)


async def test_a_check_that_takes_too_long_is_given_up_and_the_others_go_on(database, findings):
    with psycopg.connect(database) as blocker:
        blocker.execute("lock table posthouse.workers in access exclusive mode")
        found = await findings(check_seconds=0.2)
    assert found["workers"].severity == "warning"
    assert "this check failed" in found["workers"].summary
    assert found["partitions"].severity == "ok"


async def test_a_pooler_without_a_direct_way_is_a_warning(database, findings, settings):
    async with pooler_before(database) as pooled:
        alone = Settings(database_url=pooled)
        assert (await findings(pooled, alone))["pooler"].severity == "warning"
        beside = Settings(database_url=pooled, direct_url=database)
        assert (await findings(pooled, beside))["pooler"].severity == "ok"
        doubly = Settings(database_url=pooled, direct_url=pooled)
        assert (await findings(pooled, doubly))["pooler"].severity == "error"
    assert (await findings())["pooler"].severity == "ok"


@contextlib.asynccontextmanager
async def pooler_before(url):
    """Stands between a client and Postgres as a pooler does: the process id it gives is its own."""
    target = conninfo_to_dict(url)

    async def carry(reader, writer):
        there_reader, there_writer = await asyncio.open_connection(target["host"], target["port"])
        await asyncio.gather(_copy(reader, there_writer), _copy_answers(there_reader, writer))

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield make_conninfo(url, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")


async def _copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def _copy_answers(reader, writer):
    """Message by message until the key of the backend came by."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        kind = b""
        while kind != b"K":
            kind = await reader.readexactly(1)
            (size,) = struct.unpack("!i", await reader.readexactly(4))
            body = await reader.readexactly(size - 4)
            if kind == b"K":
                body = struct.pack("!i", 424242) + body[4:]
            writer.write(kind + struct.pack("!i", size) + body)
    await _copy(reader, writer)


async def test_the_command_exits_with_one_if_there_is_an_error_and_names_it(posthouse, enqueue, db):
    enqueue("letter")
    db.execute("delete from posthouse.migrations")
    answer = posthouse("doctor", "--json")
    assert answer.code == 1
    assert answer.json["healthy"] is False
    severities = {finding["check"]: finding["severity"] for finding in answer.json["findings"]}
    assert severities["schema"] == "error"
    plain = posthouse("doctor")
    assert plain.code == 1
    assert "posthouse migrate" in plain.out


def test_the_command_reports_an_unreachable_database(posthouse):
    answer = posthouse("doctor", "--json", POSTHOUSE_DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing")
    assert (answer.code, answer.json["counts"]) == (1, {"ok": 0, "warning": 0, "error": 1})
