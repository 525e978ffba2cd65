"""Leases of remote workers: an outage of the API is no evidence that a worker died."""

from uuid import uuid4

import pytest

pytestmark = pytest.mark.on_stock_server

LEASE, GRACE = 35, 120


@pytest.fixture
def remote(engine):
    """A remote worker with a running job."""
    engine.register(key="key:one", offline_after=LEASE)
    job_id = engine.enqueue(max_attempts=10)
    return job_id, engine.claim_one(lease=LEASE)


class Clock:
    """Moves the clock in steps, with a heartbeat of the server in each."""

    def __init__(self, engine):
        self.engine, self.now, self.server = engine, 0, uuid4()

    def pass_with_server(self, seconds, step=5):
        for _ in range(0, seconds, step):
            self.now += step
            self.engine.advance(self.now)
            self.engine.server_beat(self.server)

    def pass_without_server(self, seconds):
        self.now += seconds
        self.engine.advance(self.now)


def test_without_a_server_no_lease_of_a_remote_worker_is_judged(engine, remote):
    job_id, job = remote
    clock = Clock(engine)
    clock.pass_without_server(3600)
    assert (engine.mark_lost_workers(), engine.rescue()) == ([], {})
    clock.pass_with_server(60)
    assert (engine.mark_lost_workers(), engine.rescue()) == ([], {})
    assert engine.heartbeat(job, lease=LEASE) == {}
    clock.pass_with_server(30)
    assert engine.rescue() == {}
    assert engine.succeed(job) == []
    assert [attempt.outcome for attempt in engine.attempts(job_id)] == ["succeeded"]


def test_a_direct_worker_is_judged_without_a_server(engine):
    engine.register()
    job_id = engine.enqueue()
    engine.claim_one(lease=LEASE)
    engine.advance(LEASE + 1)
    assert engine.rescue() == {job_id: "rescue"}


def test_after_the_grace_period_a_silent_remote_worker_loses_its_job_without_a_crash(engine, remote):
    job_id, job = remote
    clock = Clock(engine)
    clock.pass_without_server(60)
    clock.pass_with_server(GRACE)
    assert engine.rescue() == {}
    clock.pass_with_server(10)
    assert engine.mark_lost_workers() == [engine.worker]
    assert engine.rescue() == {job_id: "rescue"}
    again = engine.claim_one(lease=LEASE)
    assert (again.crashes, again.attempt_count) == (0, 2)
    assert engine.attempts(job_id)[0].error_type == "LeaseExpired"
    assert engine.succeed(job) == [job_id]  # its token was replaced


def test_three_lost_leases_of_a_remote_worker_are_no_poison(engine, remote):
    job_id, _ = remote
    clock = Clock(engine)
    for _ in range(3):
        clock.pass_with_server(GRACE + 60)
        assert engine.rescue() == {job_id: "rescue"}
        engine.claim_one(lease=LEASE)
    assert engine.job(job_id).crashes == 0


def test_a_remote_worker_that_was_started_again_on_its_host_had_crashed(engine, remote):
    job_id, _ = remote
    clock = Clock(engine)
    clock.pass_with_server(GRACE + 20)
    engine.register(uuid4(), key="key:one")
    assert engine.rescue() == {job_id: "rescue"}
    assert engine.claim_one().crashes == 1


def test_a_gap_in_the_heartbeats_of_a_server_starts_the_grace_period_anew(engine, remote):
    job_id, _ = remote
    clock = Clock(engine)
    clock.pass_with_server(20)
    clock.pass_without_server(600)
    clock.pass_with_server(GRACE)
    assert engine.rescue() == {}
    clock.pass_with_server(10)
    assert engine.rescue() == {job_id: "rescue"}


def test_one_server_of_two_that_restarts_delays_nothing(engine, remote):
    job_id, _ = remote
    clock, other = Clock(engine), uuid4()
    clock.pass_with_server(GRACE + 20)
    engine.server_beat(other)
    engine.value("select posthouse.server_leave(%s)", other)
    assert engine.rescue() == {job_id: "rescue"}


def test_a_worker_that_beats_every_30_seconds_is_never_offline(engine):
    clock = Clock(engine)
    clock.pass_with_server(GRACE + 10)
    engine.register(key="key:one")
    for _ in range(10):
        for _ in range(3):
            clock.pass_with_server(10)
            assert engine.mark_lost_workers() == []
        engine.heartbeat(lease=1800)
        assert engine.rows("select posthouse.mark_returned_workers()") == []
    changes = engine.rows("select change from posthouse.worker_changes order by id")
    assert [row.change for row in changes] == ["started"]
    assert engine.value("select posthouse.is_online(w, null) from posthouse.workers as w")
    clock.pass_with_server(305)
    assert engine.mark_lost_workers() == [engine.worker]
