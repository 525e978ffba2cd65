"""Redis is killed, stopped, flushed, restarted empty and cut off: no job is lost or repeated."""

from contextlib import AsyncExitStack, asynccontextmanager

import chaos
import pytest

from posthouse.dispatch import connection, reader
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from support import fault_jobs
from support.tcp_proxy import TcpProxy
from support.waiting import eventually


@asynccontextmanager
async def kill(server, proxy):
    server.kill()
    yield
    server.start()


@asynccontextmanager
async def hang(server, proxy):
    server.hang()
    yield
    server.resume()


@asynccontextmanager
async def flush(server, proxy):
    yield
    server.flush()


@asynccontextmanager
async def restart_empty(server, proxy):
    yield
    server.kill()
    server.start()


@asynccontextmanager
async def partition(server, proxy):
    proxy.pause()
    yield
    proxy.resume()


class Fleet:
    """Workers and a keeper that use Redis through a proxy, and the record of what was enqueued."""

    def __init__(self, db, settings):
        self.db = db
        self.settings = settings
        self.record = chaos.Record()
        self.workers = []

    @asynccontextmanager
    async def working(self):
        self.db.execute("create table effects (job_id uuid not null, attempt integer not null)")
        async with AsyncExitStack() as stack:
            keeper = Keeper(self.settings.database_url, self.settings)
            await keeper.start()
            stack.push_async_callback(keeper.stop)
            options = {name: getattr(self.settings, name) for name in OPTIONS}
            for _ in range(3):
                worker = await fault_jobs.app.worker(**options)
                await worker.start()
                self.workers.append(worker)
                stack.push_async_callback(worker.stop)
            yield

    def enqueue(self, count):
        for number in range(count):
            fate = ("plain", "pay", "retry", "follow", "snooze")[number % 5]
            (job,) = self.db.execute(
                "select posthouse.enqueue('errand', jsonb_build_object('fate', %s::text, 'seconds', 0), "
                "max_attempts => 8)",
                (fate,),
            ).fetchone()
            self.record.acknowledged.add(job)

    async def all_end(self):
        ask = "select count(*) from posthouse.jobs where status in ('queued', 'running')"
        await eventually(lambda: self.db.execute(ask).fetchone() == (0,), what="the end of all jobs")


OPTIONS = (
    "database_url",
    "dispatch",
    "redis_url",
    "poll_seconds",
    "heartbeat_seconds",
    "lease_seconds",
    "concurrency",
)


@pytest.fixture
def proxy(redis_server):
    with TcpProxy("127.0.0.1", redis_server.port) as proxy:
        yield proxy


@pytest.fixture
def fleet(database, db, proxy, request, monkeypatch):
    """In redis mode no worker polls: only dispatch can make a test pass."""
    monkeypatch.setattr(reader, "OUTAGE_SECONDS", 3600.0)
    quick = {"heartbeat_seconds": 1, "lease_seconds": 10, "concurrency": 5}
    polls = {"redis": 3600.0, "hybrid": 0.2}[request.param]
    url = f"redis://127.0.0.1:{proxy.port}/0"
    settings = Settings(
        database_url=database, dispatch=request.param, redis_url=url, poll_seconds=polls, **quick
    )
    return Fleet(db, settings)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fleet", ["hybrid", pytest.param("redis", marks=pytest.mark.soak)], indirect=True)
async def test_no_fault_of_redis_loses_or_repeats_a_job(fleet, db, redis_server, proxy):
    falls_back = fleet.settings.dispatch == "hybrid"
    async with fleet.working():
        for fault in (kill, hang, flush, restart_empty, partition):
            fleet.enqueue(10)
            async with fault(redis_server, proxy):
                fleet.enqueue(10)
                if falls_back:
                    await fleet.all_end()
            fleet.enqueue(10)
            await fleet.all_end()
            fleet.record.faults[fault.__name__] += 1
        assert chaos.violations(db, fleet.record) == []
        assert len(fleet.record.acknowledged) == 150


@pytest.mark.parametrize("fleet", ["hybrid"], indirect=True)
async def test_workers_return_to_redis_when_it_is_back(fleet, redis_server):
    async with fleet.working():

        def are_closed():
            return {each.breaker.state for each in readers} == {"closed"}

        readers = [reader for worker in fleet.workers for reader in worker.backend.readers]
        await eventually(are_closed, what="a closed circuit")
        redis_server.kill()
        await eventually(lambda: all(each.breaker.failures for each in readers), what="an open circuit")
        fleet.enqueue(20)
        await fleet.all_end()
        redis_server.start()
        await eventually(are_closed, what="a closed circuit")
        read = sum(each.hints for each in readers)
        fleet.enqueue(5)
        await fleet.all_end()
        await eventually(lambda: sum(each.hints for each in readers) > read, what="hints from Redis")


def test_the_pause_of_the_breaker_grows_and_ends():
    circuit = connection.Breaker()
    circuit.succeeded()
    assert circuit.state == "closed"
    pauses = [circuit.failed() for _ in range(12)]
    assert circuit.state == "open"
    assert circuit.openings == 1
    assert pauses[0] <= connection.FIRST_PAUSE < pauses[5]
    assert max(pauses) <= connection.MAX_PAUSE
    circuit.retry()
    assert circuit.state == "half-open"
    circuit.succeeded()
    assert (circuit.state, circuit.failures) == ("closed", 0)
