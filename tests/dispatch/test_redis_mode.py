"""What is particular to Redis: the start, the URLs, the streams, the relay, and what the doctor says."""

import asyncio

import pytest

from posthouse.dispatch import LEVELS, HintStreams, Reader, Redis, Relay
from posthouse.dispatch import reader as reading
from posthouse.dispatch.connection import masked
from posthouse.dispatch.streams import MAX_STREAM_ENTRIES, Key
from posthouse.errors import ConfigurationError, RedisUnavailable
from posthouse.insights.doctor import run_checks
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings, load_settings
from support.dispatch_conformance import Runs, a_running_job_is_canceled_at_once
from support.waiting import eventually
from support.workers import running_worker

NOWHERE = "redis://user:secret@127.0.0.1:1/0"


@pytest.fixture
async def redis(redis_server):
    redis = Redis(redis_server.url, 10)
    yield redis
    await redis.close()


class Idle:
    """A claimant that always waits for hints. With ``has_room`` false, one job fills it."""

    def __init__(self, *group, queues=("default",), has_room=True):
        self.resting, self.claimed = asyncio.Event(), asyncio.Event()
        self.resting.set()
        self.group, self.queues, self.has_room = group, queues, has_room
        self.wakeups = 0

    def wake(self):
        self.wakeups += 1
        self.claimed.set()
        self.resting.set()

    def rely_on_hints(self, idle_seconds):
        self.idle_seconds = idle_seconds


def test_the_settings_of_dispatch_are_checked(tmp_path):
    with pytest.raises(ConfigurationError, match="database, redis, hybrid"):
        Settings(dispatch="kafka")
    with pytest.raises(ConfigurationError, match="POSTHOUSE_REDIS_URL"):
        Settings(dispatch="redis")
    env = {
        "POSTHOUSE_DISPATCH": "hybrid",
        "POSTHOUSE_REDIS_URL": "redis://cache:6379/1",
        "POSTHOUSE_REDIS_POOL_SIZE": "7",
    }
    found = load_settings(env=env, directory=tmp_path)
    assert (found.dispatch, found.redis_url, found.redis_pool_size) == ("hybrid", "redis://cache:6379/1", 7)
    assert found.masked()["redis_url"] == "********"


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@127.0.0.1:6379/2",
        "rediss://user:secret@redis.example.com:6380/0?ssl_ca_certs=/ca.pem",
        "unix:///run/redis.sock?db=1",
        "redis+sentinel://user:secret@one:26379,two:26379/mymaster/1",
        "redis+cluster://:secret@127.0.0.1:7000/0",
    ],
)
async def test_urls_of_all_kinds_are_understood_and_shown_without_the_password(url):
    redis = Redis(url, 5)
    assert "secret" not in redis.shown
    await redis.close()


def test_a_url_that_is_not_one_of_redis_is_rejected():
    with pytest.raises(ConfigurationError, match="rediss://"):
        Redis("http://127.0.0.1", 5)
    with pytest.raises(ConfigurationError, match="name of the service"):
        Redis("redis+sentinel://127.0.0.1:26379", 5)
    assert masked("redis://a:b@host:1/2?x=y") == "redis://host:1/2"


async def test_redis_mode_does_not_start_without_redis(app, settings):
    @app.job()
    async def note() -> None: ...

    worker = await app.worker(dispatch="redis", redis_url=NOWHERE)
    with pytest.raises(RedisUnavailable, match="POSTHOUSE_DISPATCH=hybrid") as raised:
        await worker.start()
    assert "secret" not in str(raised.value)
    keeper = Keeper(settings.database_url, Settings(dispatch="redis", redis_url=NOWHERE))
    with pytest.raises(RedisUnavailable, match="requires Redis"):
        await keeper.start()
    await keeper.stop()


async def test_hybrid_mode_starts_without_redis(app, db):
    @app.job()
    async def note() -> None: ...

    async with running_worker(app, dispatch="hybrid", redis_url=NOWHERE, poll_seconds=0.1):
        handle = await note.enqueue()
        await handle.wait(60)


async def test_a_worker_polls_while_no_relay_works(app, redis_server, monkeypatch):
    monkeypatch.setattr(reading, "RELAY_SECONDS", 0.0)
    monkeypatch.setattr(reading, "BLOCK_MILLISECONDS", 100)

    @app.job()
    async def note() -> None: ...

    async with running_worker(
        app, keeper=False, dispatch="redis", redis_url=redis_server.url, poll_seconds=0.1
    ):
        for _ in range(2):
            handle = await note.enqueue()
            await handle.wait(80)


async def test_a_job_is_canceled_at_once_while_redis_is_unreachable(settings, db):
    runs = Runs(settings)
    async with runs.app:
        mode = {"dispatch": "hybrid", "redis_url": NOWHERE, "poll_seconds": 0.1}
        await a_running_job_is_canceled_at_once(runs, db, mode)


async def test_the_password_of_the_url_is_used(redis_server):
    with redis_server.client() as client:
        client.config_set("requirepass", "secret")
    stranger = Redis(redis_server.url, 5)
    with pytest.raises(RedisUnavailable, match="Authentication required"):
        await stranger.ping()
    await stranger.close()
    known = Redis(redis_server.url.replace("//", "//default:secret@"), 5)
    await known.ping()
    await known.close()


async def test_levels_are_read_in_order_and_the_lowest_is_not_starved(redis):
    reader = Reader(redis, Idle("note"), "one", falls_back=False)
    streams = HintStreams(redis)
    group, keys = reader._group_and_keys()
    await streams.join(group, "one", keys)
    await streams.add({Key("default", level): 10 for level in reversed(LEVELS)})
    for _ in range(10):
        hints = await streams.read(group, "one", keys)
        assert [hint.stream.split(":")[1] for hint in hints] == list(LEVELS)


@pytest.mark.parametrize(("has_room", "left"), [(True, [0, 0, 0]), (False, [0, 1, 1])])
async def test_a_worker_without_a_free_slot_leaves_lower_levels_to_others(redis, has_room, left):
    claimant = Idle("note", has_room=has_room)
    reader = Reader(redis, claimant, "one", falls_back=False)
    streams = HintStreams(redis)
    group, keys = reader._group_and_keys()
    await reader._join(group, keys)
    await streams.add({Key("default", level): 1 for level in LEVELS})
    await reader._read()
    assert claimant.wakeups == 2  # when it joined, and once for three hints
    assert [sum(each) for each in (await reader._streams.unhandled(keys)).values()] == left


async def test_groups_with_other_kinds_get_each_hint_too(redis):
    tasks, claimants = [], [Idle("a"), Idle("a"), Idle("b")]
    for number, claimant in enumerate(claimants):
        reader = Reader(redis, claimant, f"reader-{number}", falls_back=False)
        tasks.append(asyncio.create_task(reader.run()))
    await eventually(lambda: all(each.wakeups == 1 for each in claimants), what="all groups")
    await HintStreams(redis).add({Key("default", "normal"): 2})
    await eventually(lambda: claimants[2].wakeups == 3, what="both hints in the second group")
    await eventually(lambda: claimants[0].wakeups + claimants[1].wakeups == 4, what="both in the first")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_hints_of_a_dead_consumer_are_taken_over(redis):
    streams, key = HintStreams(redis), Key("default", "normal")
    await streams.join("group", "dead", [key])
    await streams.add({key: 3})
    for _ in range(3):
        await streams.read("group", "dead", [key])
    assert await streams.unhandled([key]) == {key: (0, 3)}
    assert await streams.reclaim("relay", [key], 3600) == {}
    assert await streams.reclaim("relay", [key], 0) == {key: 3}
    assert await streams.unhandled([key]) == {key: (0, 0)}


async def test_the_streams_stay_short(redis, redis_server):
    streams, key = HintStreams(redis), Key("default", "normal")
    for _ in range(30):
        await streams.add({key: 100})
    with redis_server.client() as client:
        assert client.xlen(key.stream) <= 2 * MAX_STREAM_ENTRIES


async def test_a_deep_queue_needs_few_hints(engine, redis_server):
    """With 2,000 ready jobs and two workers there are two hints, however often the relay counts."""
    db = engine.connection
    db.execute(
        "insert into posthouse.workers (id, name, hostname, pid, queues, kinds, concurrency, started_at) "
        "select gen_random_uuid(), 'w', 'h', n, '{default}', '{note}', 10, now() "
        "from generate_series(1, 2) as n"
    )
    db.execute("select posthouse.enqueue('note', priority => 50)")
    db.execute("insert into posthouse.ready select (jsonb_populate_record(r, jsonb_build_object('id', "
               "gen_random_uuid(), 'position', nextval('posthouse.position')))).* "
               "from posthouse.ready as r, generate_series(1, 2000)")  # fmt: skip
    redis = Redis(redis_server.url, 10)
    relay = Relay(engine.url, Settings(dispatch="redis", redis_url=redis_server.url), redis)
    reader = Reader(redis, Idle("note"), "one", falls_back=False)
    group, keys = reader._group_and_keys()
    await HintStreams(redis).join(group, "one", keys)
    assert await relay.run_once() == {"hints": 2}
    relay._sweep_now()
    relay._counted.clear()
    assert await relay.run_once() == {"hints": 0}  # they have not been read
    relay._sweep_now()
    for _ in range(2):  # one reads a hint, and is gone
        await HintStreams(redis).read(group, "one", keys)
    for key, seen in relay._counted.items():
        relay._counted[key] = seen._replace(next_at=0.0)
    assert await relay.run_once() == {"hints": 2}
    assert relay._deep == {"default"}
    with redis_server.client() as client:
        assert client.xlen(Key("default", "high").stream) == 4
        assert client.xlen(Key("default", "normal").stream) == 0
    await relay.close()


async def test_one_relay_works_and_another_takes_over(redis):
    streams = HintStreams(redis)
    assert await streams.acquire_lease("first", 30)
    assert not await streams.acquire_lease("second", 30)
    assert await streams.acquire_lease("first", 30)
    await streams.release_lease("second")
    assert not await streams.acquire_lease("second", 30)
    await streams.release_lease("first")
    assert await streams.acquire_lease("second", 30)


async def test_the_doctor_examines_redis(settings, redis_server):
    async def finding(**changes):
        changed = Settings(database_url=settings.database_url, **changes)
        return {item.check: item for item in await run_checks(settings.database_url, changed)}["dispatch"]

    assert (await finding()).severity == "ok"
    silent = await finding(dispatch="redis", redis_url=redis_server.url)
    assert (silent.severity, "no relay" in silent.summary) == ("warning", True)
    assert (await finding(dispatch="redis", redis_url=NOWHERE)).severity == "error"
    assert (await finding(dispatch="hybrid", redis_url=NOWHERE)).severity == "warning"
