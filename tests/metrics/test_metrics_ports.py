"""Metrics of a worker and of a keeper, on a port of their own."""

from __future__ import annotations

import json
import re
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from posthouse.metrics.catalogue import METRICS
from support.waiting import eventually_sync


def address(process):
    """Where it says that its metrics are."""
    while True:
        line = json.loads(process.line())
        if found := re.search(r"http://\S+/metrics", line["message"]):
            return found[0]


def scraped(url):
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def sample(families, name, **labels):
    found = [
        each.value
        for family in families.values()
        for each in family.samples
        if each.name == name and labels.items() <= each.labels.items()
    ]
    return sum(found)


def test_a_worker_tells_what_it_ran_and_a_keeper_what_it_did(posthouse, enqueue, db):
    worker = posthouse.start("worker", "--app", posthouse.write_app(), "--metrics-port", "0")
    url = address(worker)
    enqueue("greet", payload='{"name": "Ada"}', queue="mail")
    enqueue("explode", payload='{"why": "boom"}', max_attempts=1)
    eventually_sync(lambda: sample(scraped(url), "posthouse_worker_attempts_total") == 2)
    families = scraped(url)
    assert sample(families, "posthouse_worker_attempts_total", outcome="succeeded") == 1
    assert sample(families, "posthouse_worker_attempts_total", outcome="failed") == 1
    assert sample(families, "posthouse_worker_attempt_duration_seconds_count", kind="greet") == 1
    assert sample(families, "posthouse_worker_claimed_jobs_total") == 2
    assert sample(families, "posthouse_worker_claim_duration_seconds_count") > 0
    assert sample(families, "posthouse_worker_jobs_in_flight") == 0
    assert sample(families, "posthouse_worker_slots") > 0
    assert sample(families, "posthouse_keeper_service_duration_seconds_count", service="promoter") > 0
    own = {name for name in families if name.startswith("posthouse_")}
    assert own == {metric.base for metric in METRICS if metric.scope in {"worker", "keeper"}}
    assert worker.stop() == 0
    keeper = posthouse.start("keeper", "--metrics-port", "0")
    url = address(keeper)
    eventually_sync(lambda: sample(scraped(url), "posthouse_keeper_service_duration_seconds_count") > 3)
    assert not any(name.startswith("posthouse_worker") for name in scraped(url))
    assert keeper.stop() == 0
