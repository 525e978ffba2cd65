"""Metrics, as Prometheus collects them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from posthouse.metrics.catalogue import METRICS
from support.databases import define
from support.metrics_lint import problems
from support.server import RunningServer
from support.workers import claim_as_other_worker


async def scraped(client):
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(families, name, **labels):
    samples = families[name].samples
    return sum(s.value for s in samples if s.name.startswith(name) and labels.items() <= s.labels.items())


def counted(families, name, **labels):
    return sum(
        s.value
        for s in families[name].samples
        if s.name == f"{name}_total" and labels.items() <= s.labels.items()
    )


def past_minute(db, tenant="acme", queue="mail", kind="sync", jobs=3):
    """A minute that is over, with jobs that succeeded after waiting 2 s and running 1 s.

    The same one each time, also when a minute ends between two calls.
    """
    db.execute(
        "insert into posthouse.samples (minute, tenant_id, queue, kind, arrivals, ended, succeeded, failed,"
        " dead_letter, failures, retries, rescues, wait_buckets, wait_counts, run_buckets, run_counts)"
        " values (coalesce((select max(minute) from posthouse.samples),"
        " posthouse.minute_of(posthouse.now()) - interval '5 minutes'), %(tenant)s, %(queue)s,"
        " %(kind)s, %(jobs)s, %(jobs)s, %(jobs)s - 3, 1, 2, 3, 1, 1,"
        " array[posthouse.bucket(2.0)], array[%(jobs)s],"
        " array[posthouse.bucket(1.0)], array[%(jobs)s])",
        {"tenant": tenant, "queue": queue, "kind": kind, "jobs": jobs},
    )


def seal(db):
    db.execute(
        "insert into posthouse.sampled_minutes (minute, sealed, backlog, seconds)"
        " select distinct minute, true, true, 0 from posthouse.samples on conflict do nothing"
    )
    db.execute("select posthouse.add_totals()")


async def test_metrics_parse_follow_the_conventions_and_are_documented(api, db):
    past_minute(db)
    seal(db)
    enqueue(db, "acme")
    db.execute("select posthouse.pause_queue('mail')")
    await api.client().get("/health")
    families = await scraped(api.client())
    assert problems(families.values()) == []
    known = {metric.base: metric for metric in METRICS if metric.scope in {"database", "server"}}
    own = {name: family for name, family in families.items() if name.startswith("posthouse_")}
    assert set(own) == set(known)
    for name, family in own.items():
        metric = known[name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), sample
    assert "process_resident_memory_bytes" in families


def test_the_check_of_conventions_finds_what_breaks_them():
    wrong = [
        GaugeMetricFamily("jobs_total", "Jobs.", value=1),
        GaugeMetricFamily("waitMilliseconds", "Wait.", value=1),
        GaugeMetricFamily("wait_ms", "Wait.", value=1),
        CounterMetricFamily("jobs_counter", "", value=1),
    ]
    assert {line.split(": ")[1] for line in problems(wrong)} == {
        "only counters end in _total",
        "not snake case",
        "no base unit",
        "no help text",
        "its type in its name",
    }


async def test_the_backlog_is_shown_by_tenant_queue_and_status(api, db):
    for _ in range(3):
        enqueue(db, "acme", queue="mail")
    enqueue(db, "acme", queue="mail", delay=3600)
    claim_as_other_worker(db, "mail", ["sync"])
    families = await scraped(api.client())
    jobs = {
        status: value(families, "posthouse_queue_jobs", tenant="acme", queue="mail", status=status)
        for status in ("ready", "running", "scheduled", "blocked")
    }
    assert jobs == {"ready": 2, "running": 1, "scheduled": 1, "blocked": 0}
    assert value(families, "posthouse_queue_oldest_ready_seconds", queue="mail") > 0


async def test_counters_are_the_same_at_every_server_and_outlive_their_samples(api, db, settings):
    past_minute(db, jobs=5)
    seal(db)
    past_minute(db, kind="other-kind", jobs=7)
    seal(db)  # that minute is counted already: a late sample of it does not count twice
    before = await scraped(api.client())
    db.execute("delete from posthouse.samples")
    seal(db)
    async with RunningServer(settings, database=api.database) as server:
        after = await scraped(server.client())
    for families in (before, after):
        assert counted(families, "posthouse_jobs_enqueued", tenant="acme", kind="sync") == 5
        ended = ("succeeded", "failed", "dead_letter", "canceled")
        assert [counted(families, "posthouse_jobs_finished", status=each) for each in ended] == [2, 1, 2, 0]
        assert counted(families, "posthouse_attempt_failures") == 3
        assert counted(families, "posthouse_attempt_retries") == 1
        assert counted(families, "posthouse_attempt_rescues") == 1
        waits = {
            float(s.labels["le"]): s.value
            for s in families["posthouse_job_wait_seconds"].samples
            if s.name.endswith("_bucket")
        }
        assert waits[1.6384] == 0
        assert waits[3.2768] == waits[float("inf")] == 5
        total = next(
            s.value for s in families["posthouse_job_run_seconds"].samples if s.name.endswith("_sum")
        )
        assert total == pytest.approx(5.0, rel=0.05)


async def test_there_are_only_so_many_names(api, db, settings):
    for number in range(5):
        past_minute(db, tenant=f"tenant-{number}", jobs=2)
        enqueue(db, f"tenant-{number}")
    seal(db)
    async with RunningServer(replace(settings, metrics_max_tenants=2), database=api.database) as server:
        families = await scraped(server.client())
    for name in ("posthouse_jobs_enqueued", "posthouse_queue_jobs"):
        shown = {sample.labels["tenant"] for sample in families[name].samples}
        assert shown == {"tenant-0", "tenant-1", "other"}, name
    assert counted(families, "posthouse_jobs_enqueued") == 10
    assert counted(families, "posthouse_jobs_enqueued", tenant="other") == 6


async def test_requests_are_counted_by_route_and_never_by_what_stands_in_them(api):
    acme = await api.client_for("tenant-viewer", "acme")
    for number in range(3):
        await acme.get(f"/api/v1/jobs/0000000{number}-0000-7000-8000-000000000000")
        await acme.get(f"/secret-{number}")
    admin = await api.client_for("tenant-admin", "acme")
    define(api.database, "sync")
    await admin.post("/api/v1/jobs", json={"definition_key": "sync"})
    families = await scraped(api.client())
    requests = families["posthouse_http_request_duration_seconds"].samples
    count = {
        (s.labels["route"], s.labels["status"]): s.value for s in requests if s.name.endswith("_count")
    }  # fmt: skip
    assert count["/api/v1/jobs/{job_id}", "404"] == 3
    assert count["none", "404"] == 3
    assert count["/api/v1/jobs", "201"] == 1


async def test_metrics_are_for_collectors_operators_and_this_machine(api, settings):
    boss, admin = await api.key("super-admin"), await api.key("tenant-admin", "acme")
    assert (await api.client().get("/metrics")).status_code == 200
    assert (await api.client().get("/metrics", headers={"X-Forwarded-For": "10.0.0.1"})).status_code == 401
    async with RunningServer(replace(settings, metrics_token="let-me-in"), database=api.database) as server:
        for key, status in ((None, 401), ("wrong", 401), ("let-me-in", 200), (boss, 200), (admin, 403)):
            assert (await server.client(key).get("/metrics")).status_code == status, key
        open_metrics = await server.client("let-me-in").get(
            "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
        )
        assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
        assert open_metrics.text.endswith("# EOF\n")


def enqueue(db, tenant, **fields):
    text = json.dumps([{"kind": "sync", "tenant_id": tenant, **fields}])
    db.execute("select posthouse.enqueue_many(%s::jsonb)", (text,))
