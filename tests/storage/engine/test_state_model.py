"""The state machine against a small model: both agree on every job after every operation."""

from collections import Counter
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from support.engine import Engine, reset_database

QUEUES, TENANTS, KEYS = ("q1", "q2"), ("t1", "t2"), ("k1", "k2", None)
LEASE = 100
CRASH_LIMIT = 3


@dataclass
class JobModel:
    """What the model knows of a job."""

    queue: str
    tenant: str
    key: str | None
    max_attempts: int
    due: float
    status: str = "queued"
    attempts: int = 0
    crashes: int = 0
    generation: int = 1
    token: UUID | None = None
    expires: float = 0.0
    canceling: bool = False


class Jobs(RuleBasedStateMachine):
    url: str

    jobs = Bundle("jobs")

    def __init__(self):
        super().__init__()
        self.connection = psycopg.connect(self.url, autocommit=True)
        reset_database(self.connection)
        self.engine = Engine(self.connection, self.url)
        self.model: dict[UUID, JobModel] = {}
        self.now = 0.0
        self.paused: set[str] = set()
        self.limits: dict[str, int] = {}

    def teardown(self):
        self.connection.close()

    # What happens.

    @rule(
        target=jobs,
        queue=st.sampled_from(QUEUES),
        tenant=st.sampled_from(TENANTS),
        key=st.sampled_from(KEYS),
        attempts=st.integers(1, 4),
        delay=st.sampled_from([None, None, 50, 500]),
    )
    def enqueue(self, queue, tenant, key, attempts, delay):
        job_id = self.engine.enqueue(
            queue=queue, tenant_id=tenant, limit_key=key, max_attempts=attempts, delay=delay
        )
        self.model[job_id] = JobModel(queue, tenant, key, attempts, self.now + (delay or 0))
        return job_id

    @rule(limit=st.integers(1, 5), queues=st.sets(st.sampled_from(QUEUES), min_size=1))
    def claim(self, limit, queues):
        self.engine.promote()
        claimable, before = self.claimable(queues), self.running()
        token = uuid4()
        claimed = self.engine.claim(limit, queues=sorted(queues), lease=LEASE, token=token)
        for row in claimed:
            job = self.model[row.id]
            assert row.id in claimable
            job.status, job.token, job.attempts = "running", token, job.attempts + 1
            job.expires = self.now + LEASE
            assert (row.attempt_count, row.crashes, row.generation) == (
                job.attempts,
                job.crashes,
                job.generation,
            )
        assert claimed or not claimable
        for slot, running in self.running().items():  # lowered, a limit may be below what ran before
            assert running <= max(self.limits[slot.split("\x1f")[0]], before[slot])

    @rule(job_id=jobs, how=st.sampled_from(["succeed", "fail", "retry", "snooze", "release"]))
    def finish(self, job_id, how):
        job = self.model[job_id]
        if job.status != "running":
            return
        row = self.lease(job_id)
        if how == "succeed":
            assert self.engine.succeed(row) == []
        else:
            assert self.engine.settle(row, how, how, 50.0) == []
        self.settle(job, how)

    def settle(self, job, how):
        job.token = None
        if job.canceling:
            job.status, job.canceling = "canceled", False
        elif how == "succeed":
            job.status = "succeeded"
        elif how == "fail":
            job.status = "failed"
        elif how == "retry" and job.attempts >= job.max_attempts:
            job.status = "dead_letter"
        else:
            job.status, job.due = "queued", self.now + 50.0
            job.attempts -= how in {"snooze", "release"}

    @rule(job_id=jobs)
    def report_with_a_stale_token(self, job_id):
        job = self.model[job_id]
        if job.status == "running":
            stale = self.lease(job_id)._replace(token=uuid4())
            assert self.engine.succeed(stale) == [job_id]
            assert self.engine.settle(stale, "fail", "failed") == [job_id]
            assert self.engine.heartbeat(stale) == {job_id: "lost"}

    @rule(job_id=jobs)
    def renew(self, job_id):
        job = self.model[job_id]
        if job.status == "running":
            said = self.engine.heartbeat(self.lease(job_id), lease=LEASE)
            assert said == ({job_id: "cancel"} if job.canceling else {})
            job.expires = self.now + LEASE

    @rule(job_id=jobs)
    def cancel(self, job_id):
        job = self.model[job_id]
        answer = self.engine.cancel(job_id)
        if job.status == "queued":
            assert answer == "canceled"
            job.status = "canceled"
        elif job.status == "running":
            assert answer == "canceling"
            job.canceling = True
        else:
            assert answer == job.status

    @rule(job_id=jobs)
    def reopen(self, job_id):
        job = self.model[job_id]
        answer = self.engine.reopen(job_id)
        if job.status in {"failed", "canceled", "dead_letter"}:
            assert answer == "queued"
            job.status, job.attempts, job.crashes, job.due = "queued", 0, 0, self.now
            job.generation += 1
        else:
            assert answer == ("already queued" if job.status == "queued" else job.status)

    @rule(seconds=st.sampled_from([10, 60, 150]))
    def time_passes(self, seconds):
        self.now += seconds
        self.engine.advance(self.now)

    @rule()
    def rescue(self):
        lost = self.engine.rescue(crash_limit=CRASH_LIMIT)
        for job_id, job in self.model.items():
            # The clock of the database goes on by itself: what is about to run out may have done so.
            if job.status != "running" or job.expires - 5 > self.now:
                assert job_id not in lost
            elif job.expires < self.now:
                assert job_id in lost
        for job_id in lost:
            job = self.model[job_id]
            job.crashes, job.token = job.crashes + 1, None
            if job.canceling:
                job.status, job.canceling = "canceled", False
            elif job.attempts >= job.max_attempts or job.crashes >= CRASH_LIMIT:
                job.status = "dead_letter"
            else:
                job.status, job.due = "queued", self.now

    @rule(queue=st.sampled_from(QUEUES))
    def pause_or_resume(self, queue):
        if queue in self.paused:
            self.engine.value("select posthouse.resume_queue(%s)", queue)
        else:
            self.engine.value("select posthouse.pause_queue(%s)", queue)
        self.paused ^= {queue}

    @rule(per=st.sampled_from(["all", "tenant", "key"]), running=st.one_of(st.none(), st.integers(0, 3)))
    def change_a_limit(self, per, running):
        if running is None:
            self.engine.value("select posthouse.remove_limit(%s)", per)
            self.limits.pop(per, None)
        else:
            self.engine.limit(per, max_running=running, per=per)
            self.limits[per] = running

    # What must hold.

    @invariant()
    def both_agree_on_every_job(self):
        rows = self.engine.rows("select id, status, attempt_count, crashes, generation from posthouse.jobs")
        found = {row.id: tuple(row)[1:] for row in rows}
        assert len(found) == len(rows)
        assert found == {
            job_id: (job.status, job.attempts, job.crashes, job.generation)
            for job_id, job in self.model.items()
        }

    @invariant()
    def limits_count_who_runs(self):
        assert self.engine.in_use() == self.running()

    def running(self):
        """How many run, by slot."""
        slots = [
            self.slot(per, job)
            for per in self.limits
            for job in self.model.values()
            if job.status == "running"
        ]
        return Counter(slot for slot in slots if slot is not None)

    # The model's own arithmetic.

    def slot(self, per, job):
        if per == "all":
            return per
        if per == "tenant":
            return f"{per}\x1f{job.tenant}"
        return None if job.key is None else f"{per}\x1f{job.tenant}\x1f{job.key}"

    def claimable(self, queues):
        running = self.running()
        return {
            job_id
            for job_id, job in self.model.items()
            if job.status == "queued"
            and job.due <= self.now
            and job.queue in queues - self.paused
            and all(
                running[self.slot(per, job)] < most
                for per, most in self.limits.items()
                if self.slot(per, job)
            )
        }

    def lease(self, job_id):
        return self.engine.row("select * from posthouse.running where id = %s", job_id)


@pytest.fixture
def state_machine(shared_database):
    return type("Machine", (Jobs,), {"url": shared_database})


def test_the_engine_does_what_the_model_says(state_machine):
    test = state_machine.TestCase()
    test.settings = settings(
        max_examples=12,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    test.runTest()
