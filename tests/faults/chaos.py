"""Chaos: workers that are killed, stopped, drained and cut off at random, and a check of what was recorded.

    python tests/faults/chaos.py --seconds 300 [--workers remote] [--seed 7] [--url postgresql://...]

The workers run in one process each (direct), as `posthouse worker` with two child processes (supervised), or
as the same over HTTP through a server that is restarted (remote).

Jobs of every fate are enqueued all the while, over a wire that is cut as well, and some are canceled. When
the time is over the faults stop, everything is left to end, and the history is held against the invariants.
Exits with 1 and names what was violated, with the seed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

import posthouse
from posthouse import testing
from posthouse.core.ids import new_id
from posthouse.errors import DatabaseUnavailable
from posthouse.identity import Role, issue_key
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from posthouse.storage.embedded import attach_server
from support import worker_processes
from support.pgbouncer import free_port
from support.tcp_proxy import TcpProxy
from support.waiting import eventually
from support.worker_processes import Fleet, RemoteWorker, ServerProcess, SupervisedWorker, WorkerProcess

LEASE = {"lease_seconds": 1.5}
"""Shorter than workers are stopped and cut off: here jobs are to be lost."""
QUICK = {**worker_processes.QUICK, **LEASE}
WORKERS = 3
MIN_JOBS, MIN_FAULTS = 100, 5
RESCUE_BOUND = 20.0
"""Seconds after a kill within which its jobs must have been taken back; generous for a busy machine."""
FATES = ("plain", "pay", "pay", "retry", "fail", "exhaust", "snooze", "cancel", "follow", "timeout")
THREAD_FATES = ("plain", "pay", "retry")
REMOTE_GRACE = 2.0
"""Seconds that a server must be reachable before the leases of silent remote workers are judged."""


@dataclass
class Record:
    """What was done to the system, to hold its history against."""

    acknowledged: set[UUID] = field(default_factory=set)
    unsure: set[UUID] = field(default_factory=set)  # the enqueue failed: it may be stored or not
    cancels: dict[UUID, str] = field(default_factory=dict)
    kills: dict[int, float] = field(default_factory=dict)  # pid -> the database's time
    faults: Counter[str] = field(default_factory=Counter)


class Chaos:
    """Chaos with workers that run in one process each."""

    fates = FATES
    thread_fates = THREAD_FATES

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._dice = random.Random(seed)
        self._record = Record()
        self._stack = ExitStack()
        self._fleet = Fleet(url)
        self._settings = Settings(database_url=url, remote_grace_seconds=REMOTE_GRACE, **QUICK)
        self._posts: list[tuple[WorkerProcess, TcpProxy]] = []
        self._over = asyncio.Event()

    async def run(self, seconds: float) -> Record:
        with self._stack:
            self._stack.callback(self._fleet.close)
            self._db = self._stack.enter_context(psycopg.connect(self._url, autocommit=True))
            self._db.execute("create table effects (job_id uuid not null, attempt integer not null)")
            keeper = Keeper(self._url, self._settings)
            await keeper.start()
            await self._prepare()
            for _ in range(WORKERS):
                self._add_worker()
            parts = [
                asyncio.create_task(part()) for part in (self._enqueue, self._cancel, self._inject_faults)
            ]
            await asyncio.sleep(seconds)
            await eventually(self._has_done_enough, what="enough jobs and faults")
            self._over.set()
            await asyncio.gather(*parts)
            await self._wait_for_completion()
            await keeper.stop()
            return self._record

    def _has_done_enough(self) -> bool:
        """Also on a slow machine the run proves something."""
        return len(self._record.acknowledged) > MIN_JOBS and sum(self._record.faults.values()) >= MIN_FAULTS

    async def _prepare(self) -> None:
        """Start what the workers need."""

    def _proxy(self) -> TcpProxy:
        return TcpProxy.for_url(self._url)

    def _add_worker(self) -> None:
        proxy = self._stack.enter_context(self._proxy())
        self._posts.append((self._start_worker(proxy), proxy))

    def _start_worker(self, proxy: TcpProxy) -> WorkerProcess:
        return self._fleet.start(url=proxy.url_for(self._url), ready=False, concurrency=20, **LEASE)

    async def _enqueue(self) -> None:
        with TcpProxy.for_url(self._url) as proxy:
            url = proxy.url_for(self._url)
            async with posthouse.Client(settings=Settings(database_url=url, **QUICK)) as client:
                while not self._over.is_set():
                    if self._dice.random() < 0.02:
                        self._record.faults["client cut"] += proxy.disconnect_all() > 0
                    await self._enqueue_one(client)
                    await asyncio.sleep(self._dice.random() / 100)

    async def _enqueue_one(self, client: posthouse.Client) -> None:
        threaded = self._dice.random() < 0.3
        payload = {
            "fate": self._dice.choice(self.thread_fates if threaded else self.fates),
            "seconds": self._dice.random() ** 3 / 2,
        }
        options = {"delay": self._dice.random()} if self._dice.random() < 0.2 else {}
        job_id = new_id()
        try:
            kind = "thread_errand" if threaded else "errand"
            await client.enqueue(kind, payload, id=job_id, max_attempts=8, **options)
        except DatabaseUnavailable:
            self._record.unsure.add(job_id)
        else:
            self._record.acknowledged.add(job_id)

    async def _cancel(self) -> None:
        while not self._over.is_set():
            await asyncio.sleep(self._dice.random() / 5)
            left = list(self._record.acknowledged - self._record.cancels.keys())[-40:]
            if left:
                job_id = self._dice.choice(left)
                # Not on the loop: a stalled worker may hold the row, and the loop must let it continue.
                ask = "select posthouse.cancel(%s)"
                answer = await asyncio.to_thread(lambda: self._db.execute(ask, (job_id,)).fetchone())  # noqa: B023
                self._record.cancels[job_id] = answer[0]

    async def _inject_faults(self) -> None:
        while not self._over.is_set():
            await asyncio.sleep(0.1 + self._dice.random() * 0.7)
            number = self._dice.randrange(WORKERS)
            faults = self._faults()
            fault = self._dice.choices(list(faults), list(faults.values()))[0]
            self._record.faults[fault.__name__.strip("_")] += 1
            await fault(number)

    def _faults(self) -> dict[Callable[[int], Awaitable[None]], int]:
        """Return the faults, and how often each is chosen."""
        return {self._kill: 3, self._stall: 3, self._drain: 1, self._cut: 3, self._hang: 2}

    async def _kill(self, number: int) -> None:
        worker, proxy = self._posts[number]
        worker.kill()
        self._note_kill(worker.pid)
        self._posts[number] = (self._start_worker(proxy), proxy)

    def _note_kill(self, *pids: int) -> None:
        (now,) = self._db.execute("select extract(epoch from clock_timestamp())").fetchone()
        self._record.kills.update(dict.fromkeys(pids, float(now)))

    async def _stall(self, number: int) -> None:
        worker, _ = self._posts[number]
        worker.pause()
        await asyncio.sleep(self._dice.random() * 3)
        worker.resume()

    async def _drain(self, number: int) -> None:
        worker, proxy = self._posts[number]
        worker.terminate()
        self._posts[number] = (self._start_worker(proxy), proxy)

    async def _cut(self, number: int) -> None:
        self._posts[number][1].disconnect_all()

    async def _hang(self, number: int) -> None:
        _, proxy = self._posts[number]
        proxy.pause()
        await asyncio.sleep(self._dice.random() * 3)
        proxy.resume()

    async def _wait_for_completion(self) -> None:
        """Stop injecting faults and replace the processes that died of one (an interrupted
        start may fail).
        """
        for number, (worker, proxy) in enumerate(self._posts):
            if not worker.alive:
                self._posts[number] = (self._start_worker(proxy), proxy)
        ask = "select count(*) from posthouse.jobs where status in ('queued', 'running')"
        await eventually(lambda: self._db.execute(ask).fetchone() == (0,), 90, "the end of all jobs")


class SupervisedChaos(Chaos):
    """Chaos with supervised workers: child processes are killed and suspended, and supervisors are killed."""

    def _start_worker(self, proxy: TcpProxy) -> WorkerProcess:
        return self._fleet.start(
            url=proxy.url_for(self._url), ready=False, kind=SupervisedWorker, concurrency=20, **LEASE
        )

    def _faults(self) -> dict[Callable[[int], Awaitable[None]], int]:
        return {**super()._faults(), self._kill: 1, self._kill_child: 3}

    async def _kill(self, number: int) -> None:
        pids = [child.pid for child in self._posts[number][0].children]
        await super()._kill(number)
        self._note_kill(*pids)

    async def _kill_child(self, number: int) -> None:
        if (pid := self._posts[number][0].kill_child()) is not None:
            self._note_kill(pid)


class RemoteChaos(SupervisedChaos):
    """Chaos with remote workers, whose server is restarted as well. They cannot commit effects."""

    fates = tuple(fate for fate in FATES if fate != "pay")
    thread_fates = tuple(fate for fate in THREAD_FATES if fate != "pay")

    async def _prepare(self) -> None:
        self._port = free_port()
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            self._key = await issue_key(connection, "chaos", Role.WORKER, actor="test", may_announce=True)
        self._serve()

    def _serve(self) -> None:
        self._server = self._fleet.start(
            url=self._url, ready=False, kind=ServerProcess, port=self._port, remote_grace_seconds=REMOTE_GRACE
        )

    def _proxy(self) -> TcpProxy:
        return TcpProxy("127.0.0.1", self._port)

    def _start_worker(self, proxy: TcpProxy) -> WorkerProcess:
        url = f"http://127.0.0.1:{proxy.port}"
        return self._fleet.start(
            url=url, ready=False, kind=RemoteWorker, key=self._key, concurrency=20, **LEASE
        )

    def _faults(self) -> dict[Callable[[int], Awaitable[None]], int]:
        return {**super()._faults(), self._restart_server: 2}

    async def _restart_server(self, _: int) -> None:
        if self._dice.random() < 0.5:
            self._server.kill()
        else:
            self._server.terminate()
            await asyncio.to_thread(self._server.wait)
        await asyncio.sleep(self._dice.random() * 3)
        self._serve()


KINDS = {"direct": Chaos, "supervised": SupervisedChaos, "remote": RemoteChaos}


def violations(db: psycopg.Connection, record: Record) -> list[str]:
    """What in the recorded history should not be there, by invariant."""
    found: list[str] = []
    for number, check in _CHECKS.items():
        found += [f"invariant {number}: {problem}" for problem in check(db, record)]
    return found


def _every_acknowledged_job_ended_once(db, record):
    ended = Counter(job_id for (job_id,) in db.execute("select id from posthouse.history"))
    yield from (f"job {job_id} was acknowledged and is gone" for job_id in record.acknowledged - ended.keys())
    children = {
        job_id for (job_id,) in db.execute("select id from posthouse.jobs where parent_id is not null")
    }
    unknown = ended.keys() - record.acknowledged - record.unsure - children
    yield from (f"job {job_id} was not enqueued by this test" for job_id in unknown)
    for (left,) in db.execute("select id from posthouse.jobs where status in ('queued', 'running')"):
        yield f"job {left} has not ended"


def _one_job_for_each_id(db, record):
    for job_id, count in db.execute(
        "select id, count(*) from posthouse.jobs group by id having count(*) > 1"
    ):
        yield f"job {job_id} is there {count} times"
    rows = db.execute(
        "select parent_id, count(*) from posthouse.jobs where parent_id is not null "
        "group by parent_id having count(*) > 1"
    )
    for parent, count in rows:
        yield f"job {parent} has {count} follow-ups instead of one"


def _one_lease_at_a_time(db, record):
    rows = db.execute(
        "select job_id, started_at, before from (select job_id, started_at, "
        "lag(finished_at) over (partition by job_id order by started_at, finished_at) as before "
        "from posthouse.attempts) as a where before > started_at"
    )
    for job_id, started, before in rows:
        yield f"job {job_id} was started at {started}, while its attempt until {before} ran"
    rows = db.execute(
        "select id, token from (select job_id as id, token from posthouse.past_attempts "
        "union all select id, token from posthouse.history where token is not null) as t "
        "group by id, token having count(*) > 1"
    )
    for job_id, token in rows:
        yield f"job {job_id} was leased twice with the token {token}"


def _stale_tokens_wrote_nothing(db, record):
    """A write stored without its lease would show as an effect without success, or a second effect."""
    rows = db.execute(
        "select coalesce(h.id, e.job_id), h.status, coalesce(e.n, 0) from "
        "(select * from posthouse.history where payload ->> 'fate' = 'pay') as h full join "
        "(select job_id, count(*) as n from effects group by job_id) as e on e.job_id = h.id "
        "where coalesce(e.n, 0) <> case when h.status = 'succeeded' then 1 else 0 end"
    )
    for job_id, status, count in rows:
        yield f"job {job_id} is {status} and has {count} effects"


def _one_end_for_each_generation(db, record):
    rows = db.execute(
        "select id, generation, count(*) from posthouse.history group by id, generation having count(*) > 1"
    )
    for job_id, generation, count in rows:
        yield f"generation {generation} of job {job_id} ended {count} times"


def _every_move_was_legal(db, record):
    ends = {
        ("succeeded", "succeeded"), ("failed", "failed"), ("canceled", "canceled"),
        ("canceled", "never_started"), ("dead_letter", "failed"), ("dead_letter", "timeout"),
        ("dead_letter", "lost"), ("dead_letter", "crashed"),
    }  # fmt: skip
    for status, outcome in db.execute("select distinct status, outcome from posthouse.history"):
        if (status, outcome) not in ends:
            yield f"an attempt that was {outcome} ended a job as {status}"
    for (outcome,) in db.execute("select distinct outcome from posthouse.past_attempts"):
        if outcome not in {"failed", "timeout", "lost", "crashed", "released", "snoozed"}:
            yield f"a job went on after an attempt that was {outcome}"
    rows = db.execute(
        "select id, attempt_started_at, scheduled_for from posthouse.history "
        "where attempt_started_at < scheduled_for"
    )
    for job_id, started, scheduled in rows:
        yield f"job {job_id} started at {started}, before its time {scheduled}"


def _every_attempt_is_accounted_for(db, record):
    rows = db.execute(
        "select h.id, h.attempt_count, h.max_attempts, h.crashes, h.snoozes, "
        "count(a.*) filter (where a.outcome not in ('snoozed', 'released')) as spent, "
        "count(a.*) filter (where a.outcome = 'crashed' or "
        "a.outcome = 'lost' and a.error_type <> 'LeaseExpired') as lost, "
        "count(a.*) filter (where a.outcome = 'snoozed') as snoozed, h.outcome "
        "from posthouse.history as h left join posthouse.attempts as a on a.job_id = h.id "
        "group by h.id, h.attempt_count, h.max_attempts, h.crashes, h.snoozes, h.outcome"
    )
    for job_id, count, most, crashes, snoozes, spent, lost, snoozed, outcome in rows:
        if count > most or crashes > 3:
            yield f"job {job_id} had {count} of {most} attempts and {crashes} crashes"
        if count != spent:
            yield f"job {job_id} counts {count} attempts, and {spent} are recorded"
        if crashes != lost and outcome != "canceled":  # the last one may have been lost and canceled at once
            yield f"job {job_id} counts {crashes} crashes, and {lost} are recorded"
        if snoozes != snoozed:
            yield f"job {job_id} counts {snoozes} snoozes, and {snoozed} are recorded"


def _lost_leases_came_back_in_time(db, record):
    rows = db.execute(
        "select a.job_id, w.pid, extract(epoch from a.finished_at)::float from posthouse.attempts as a "
        "join posthouse.workers as w on w.id = a.worker_id where a.outcome = 'lost'"
    )
    for job_id, pid, taken_back in rows:
        late = taken_back - record.kills.get(pid, taken_back)
        if late > RESCUE_BOUND:
            yield f"job {job_id} was taken back {late:.1f} s after its worker was killed"


def _canceled_jobs_did_not_succeed(db, record):
    for job_id, answer in record.cancels.items():
        if answer not in {"canceled", "canceling"}:
            continue
        (status,) = db.execute("select status from posthouse.jobs where id = %s", (job_id,)).fetchone()
        if status != "canceled":
            yield f"job {job_id} was answered {answer!r} to its cancellation, and is {status}"
    rows = db.execute(
        "select h.id from posthouse.history as h join posthouse.audit as u "
        "on u.target = h.id::text and u.action = 'job.cancel' and u.after ->> 'status' = 'canceled' "
        "join posthouse.attempts as a on a.job_id = h.id and a.started_at > u.at"
    )
    for (job_id,) in rows:
        yield f"job {job_id} was started after it had been canceled"


_CHECKS = {
    1: _every_acknowledged_job_ended_once,
    2: _one_job_for_each_id,
    4: _one_lease_at_a_time,
    5: _stale_tokens_wrote_nothing,
    6: _one_end_for_each_generation,
    7: _every_move_was_legal,
    8: _every_attempt_is_accounted_for,
    10: _lost_leases_came_back_in_time,
    17: _canceled_jobs_did_not_succeed,
}


async def run(url: str, seconds: float, seed: int, workers: str = "direct") -> tuple[Record, list[str]]:
    record = await KINDS[workers](url, seed).run(seconds)
    with psycopg.connect(url, autocommit=True) as db:
        return record, violations(db, record)


def _summary(url: str, record: Record) -> str:
    with psycopg.connect(url, autocommit=True) as db:
        statuses = db.execute("select status, count(*) from posthouse.history group by 1 order by 2 desc")
        outcomes = db.execute("select outcome, count(*) from posthouse.attempts group by 1 order by 2 desc")
        lines = [
            f"{len(record.acknowledged)} jobs: " + _listed(statuses),
            "attempts: " + _listed(outcomes),
            "faults: " + _listed(record.faults.most_common()),
            "cancellations: " + _listed(Counter(record.cancels.values()).most_common()),
        ]
    return "\n".join(lines)


def _listed(pairs) -> str:
    return ", ".join(f"{count} {name}" for name, count in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", choices=KINDS, default="direct")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--url", default="", help="a Postgres where databases may be made")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    with ExitStack() as stack:
        server = options.url
        if not server:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="posthouse-chaos-"))
            server = stack.enter_context(
                attach_server(Path(folder), settings={"fsync": "off"})
            ).admin_url_for()
        url = stack.enter_context(testing.database(server))
        print(f"chaos for {options.seconds:g} s, {options.workers} workers, seed {seed}", flush=True)  # noqa: T201
        record, problems = asyncio.run(run(url, options.seconds, seed, options.workers))
        print(_summary(url, record))  # noqa: T201
    print("\n".join(problems[:50]) or "no invariant was violated")  # noqa: T201
    return 1 if problems else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
