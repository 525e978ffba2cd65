"""Who is served: fair shares over tenants, paused queues, capabilities."""

from collections import Counter
from uuid import uuid4

import pytest

from posthouse.worker.fetcher import FairShare
from support.engine import HOUR


def fill(engine, tenant, jobs, **fields):
    engine.enqueue_many(*[{"kind": "task", "tenant_id": tenant, **fields}] * jobs)


def tenants(jobs):
    return Counter(job.tenant_id for job in jobs)


def weigh(engine, tenant, weight):
    engine.value(
        "select posthouse.create_tenant(%s, jsonb_build_object('weight', %s::float8))", tenant, weight
    )


def test_a_few_jobs_of_one_tenant_do_not_stand_behind_the_many_of_another(engine):
    fill(engine, "large", 5_000)
    fill(engine, "small", 3)
    assert tenants(engine.claim(10)) == {"large": 7, "small": 3}


def test_a_single_tenant_gets_everything(engine):
    fill(engine, "only", 50)
    assert tenants(engine.claim(40)) == {"only": 40}


def test_tenants_share_by_their_weight(engine):
    weigh(engine, "gold", 3)
    fill(engine, "plain", 100)
    fill(engine, "gold", 100)
    assert tenants(engine.claim(40)) == {"gold": 30, "plain": 10}


def test_what_one_tenant_leaves_the_others_get(engine):
    weigh(engine, "gold", 9)
    fill(engine, "gold", 2)
    fill(engine, "plain", 100)
    assert tenants(engine.claim(40)) == {"gold": 2, "plain": 38}


def test_urgent_jobs_come_first_across_tenants(engine):
    fill(engine, "calm", 10)
    fill(engine, "busy", 10, priority=10)
    assert tenants(engine.claim(10)) == {"busy": 10}


def serve(engine, shares, claims, limit=1):
    """What a worker does with so many claims; how many jobs each tenant got."""
    total = Counter()
    for _ in range(claims):
        jobs = engine.claim(limit, tenant_usage=shares.usage)
        shares.record_claim(job.tenant_id for job in jobs)
        total += tenants(jobs)
    return total


@pytest.mark.parametrize(("weight", "share"), [(1, 20), (3, 30)])
def test_a_worker_that_takes_one_at_a_time_shares_too(engine, weight, share):
    weigh(engine, "b", weight)
    shares = FairShare()
    shares.weights = {"b": weight}
    fill(engine, "a", 100)
    fill(engine, "b", 100)
    assert abs(serve(engine, shares, 40)["b"] - share) <= 2


def test_an_idle_tenant_gets_no_credit_when_it_returns(engine):
    shares = FairShare()
    fill(engine, "b", 1)
    fill(engine, "a", 500)
    serve(engine, shares, 40, limit=5)
    fill(engine, "b", 500)
    assert abs(serve(engine, shares, 20)["b"] - 10) <= 2


def test_many_kinds_of_one_tenant_have_one_share(engine):
    for kind in ("k1", "k2", "k3"):
        engine.enqueue_many(*[{"kind": kind, "tenant_id": "many"}] * 20)
    engine.enqueue_many(*[{"kind": "k1", "tenant_id": "one"}] * 20)
    assert tenants(engine.claim(20, kinds=["k1", "k2", "k3"])) == {"many": 10, "one": 10}


def test_many_lanes_fill_a_claim_from_the_few_that_are_deep(engine):
    """Each lane is only read as deep as is needed: what is left over comes with the next claim."""
    for number in range(30):
        fill(engine, f"t{number}", 1)
    fill(engine, "deep", 200)
    assert len(engine.claim(100)) + len(engine.claim(100)) + len(engine.claim(100)) == 230


# Many lanes: a claim looks at some of them.


def serve_all(engine, claims, limit):
    """What a worker takes from many lanes: how many jobs of each tenant and of each limit key."""
    shares, lane_cursors, taken = FairShare(), {}, []
    for _ in range(claims):
        jobs = engine.claim(limit, tenant_usage=shares.usage, lane_cursors=lane_cursors)
        shares.record_claim(job.tenant_id for job in jobs)
        lane_cursors |= {job.lane: job.position for job in jobs}
        taken += jobs
    return tenants(taken), Counter(job.limit_key for job in taken)


def spread(engine, tenants_, jobs, **fields):
    """The same number of jobs for each of so many tenants, one tenant after the other in turn."""
    engine.enqueue_many(*[{"kind": "task", "tenant_id": f"t{n}", **fields} for n in range(tenants_)] * jobs)


@pytest.mark.parametrize(("limit", "claims"), [(1, 100), (10, 10), (50, 4), (100, 4)])
def test_no_tenant_of_many_waits_for_long(engine, limit, claims):
    spread(engine, 100, 10)
    by_tenant, _ = serve_all(engine, claims, limit)
    assert len(by_tenant) == min(100, limit * claims)
    assert max(by_tenant.values()) - min(by_tenant.values()) <= 1 + limit // 16


def test_no_limit_key_of_many_waits_for_long(engine):
    jobs = [{"kind": "task", "limit_key": str(n)} for n in range(100)]
    engine.enqueue_many(*jobs * 10)
    _, by_key = serve_all(engine, 4, 50)
    assert len(by_key) == 100


def test_a_tenant_with_many_limit_keys_has_one_share(engine):
    engine.enqueue_many(
        *[{"kind": "task", "tenant_id": "keys", "limit_key": str(n % 100)} for n in range(1500)]
    )
    fill(engine, "one", 1000)
    by_tenant, _ = serve_all(engine, 10, 100)
    assert abs(by_tenant["keys"] - by_tenant["one"]) <= 100


def test_a_few_jobs_of_one_tenant_do_not_stand_behind_those_of_many(engine):
    shares = FairShare()
    spread(engine, 100, 20)
    for _ in range(4):
        shares.record_claim(job.tenant_id for job in engine.claim(100, tenant_usage=shares.usage))
    fill(engine, "late", 3)
    assert tenants(engine.claim(100, tenant_usage=shares.usage))["late"] == 3


def test_urgent_jobs_of_few_tenants_come_before_the_jobs_of_many(engine):
    spread(engine, 100, 5)
    for tenant in ("u1", "u2", "u3"):
        fill(engine, tenant, 100, priority=10)
    assert tenants(engine.claim(150)) == {"u1": 50, "u2": 50, "u3": 50}
    assert Counter(job.priority for job in engine.claim(200)) == {10: 150, 100: 50}


def test_a_claim_from_many_lanes_is_full_if_one_of_them_is_long(engine):
    spread(engine, 40, 1)
    fill(engine, "deep", 400)
    assert len(engine.claim(200)) == 200
    assert len(engine.claim(200)) == 200


def test_tenants_at_their_limit_do_not_hide_the_others(engine):
    engine.limit(max_running=1, per="tenant")
    spread(engine, 60, 3)
    assert len([job for _ in range(6) for job in engine.claim(20)]) == 60
    fill(engine, "zz", 2, priority=200)
    assert tenants(engine.claim(10)) == {"zz": 1}


def test_the_limit_of_all_holds_over_many_lanes(engine):
    engine.limit(max_running=70)
    spread(engine, 100, 3)
    assert len([job for _ in range(10) for job in engine.claim(40)]) == 70
    assert engine.in_use() == {"limit": 70}


def test_the_suspects_of_many_tenants_do_not_hide_the_others(engine):
    spread(engine, 40, 1, max_attempts=9)
    for hours in (1, 2):
        lost = engine.claim(40, lease=1)
        engine.advance(hours * HOUR)
        assert engine.rescue() == {job.id: "rescue" for job in lost}
    spread(engine, 40, 1)
    assert Counter(job.crashes for job in engine.claim(41)) == {2: 1, 0: 40}
    assert engine.claim(10, allow_suspect=False) == []


# Queues.


def test_a_paused_queue_starts_nothing_and_the_others_go_on(engine):
    job = engine.start()
    waiting, other = engine.enqueue(), engine.enqueue(queue="other")
    assert engine.value("select posthouse.pause_queue('default', 'ann')") is True
    assert engine.value("select posthouse.pause_queue('default', 'bob')") is False
    assert [found.id for found in engine.claim(10, queues=["default", "other"])] == [other]
    assert engine.succeed(job) == []
    assert engine.value("select posthouse.resume_queue('default', 'ann')") is True
    assert engine.value("select posthouse.resume_queue('default', 'ann')") is False
    assert engine.claim_one().id == waiting
    actions = engine.rows("select actor, action, target from posthouse.audit order by id")
    assert actions == [("ann", "queue.pause", "default"), ("ann", "queue.resume", "default")]


# Capabilities.


def test_a_job_goes_only_to_workers_that_offer_what_it_requires(engine):
    job_id = engine.enqueue(requires=["gpu", "codec:h264"])
    assert engine.claim(10) == []
    assert engine.claim(10, capabilities=["gpu"]) == []
    assert engine.claim_one(capabilities=["codec:h264", "gpu", "more"]).id == job_id


def test_what_it_requires_stays_through_a_retry(engine):
    engine.enqueue(requires=["gpu"])
    engine.retry(engine.claim_one(capabilities=["gpu"]))
    assert engine.claim(10) == []
    assert engine.claim_one(capabilities=["gpu"]).attempt_count == 2


@pytest.fixture
def gpu(engine):
    """A worker with a GPU that was seen a moment ago and has nothing to do."""
    return engine.register(uuid4(), capabilities=["gpu"], concurrency=1)


def test_a_job_that_prefers_a_gpu_is_left_to_an_idle_worker_that_has_one(engine, gpu):
    job_id = engine.enqueue(prefers=["gpu"])
    assert engine.claim(10) == []
    assert engine.claim_one(capabilities=["gpu"], worker=gpu).id == job_id


def test_others_take_it_when_it_has_waited_long_enough(engine, gpu):
    job_id = engine.enqueue(prefers=["gpu"])
    engine.advance(19)
    engine.heartbeat(worker=gpu)
    assert engine.claim(10, preference_wait=20) == []
    engine.advance(21)
    engine.heartbeat(worker=gpu)
    assert engine.claim_one(preference_wait=20).id == job_id


def test_other_workers_claim_at_once_when_no_worker_has_the_preferred_capability(engine):
    job_id = engine.enqueue(prefers=["gpu"])
    assert engine.claim_one().id == job_id


def test_others_take_it_at_once_when_the_one_with_a_gpu_is_busy(engine, gpu):
    engine.enqueue()
    engine.claim_one(worker=gpu, capabilities=["gpu"])
    job_id = engine.enqueue(prefers=["gpu"])
    assert engine.claim_one().id == job_id


@pytest.mark.parametrize("change", ["stopped_at = now()", "disabled_at = now()",
                                    "heartbeat_at = now() - interval '1 hour'"])  # fmt: skip
def test_others_take_it_at_once_when_the_one_with_a_gpu_is_gone(engine, gpu, change):
    engine.connection.execute(f"update posthouse.workers set {change} where id = %s", (gpu,))
    job_id = engine.enqueue(prefers=["gpu"])
    assert engine.claim_one().id == job_id


def test_jobs_without_a_wish_are_not_held_up_by_those_that_have_one(engine, gpu):
    engine.enqueue(prefers=["gpu"])
    plain = engine.enqueue()
    assert [job.id for job in engine.claim(10)] == [plain]
