"""Tenants that keep their jobs shorter or longer than the others."""

import json

from support.engine import run_concurrently

LARGE = {"text": "x" * 5_000}


def test_a_shorter_retention_of_a_tenant_deletes_only_its_jobs(engine):
    engine.kept_days("brief", 2)
    gone = engine.ended("brief", payload=LARGE, dedupe_key="a", on_duplicate="reuse", order_key="a")
    stays = engine.ended("default", payload=LARGE, dedupe_key="a", on_duplicate="reuse", order_key="a")
    engine.on(4)
    fresh = engine.ended("brief", payload=LARGE)
    engine.run_retention(default=30)
    assert engine.there(gone, stays, fresh) == [stays, fresh]
    assert engine.let_go_counts["deleted"] == 1
    assert engine.count("payloads") == 2
    for table in ("dedupe_keys", "order_tails"):
        assert engine.rows(f"select tenant_id from posthouse.{table}") == [("default",)]


def test_what_was_purged_is_not_looked_at_again(engine):
    engine.kept_days("brief", 2)
    engine.ended("brief")
    engine.on(4)
    assert ("purge", "history") in engine.plan(default=30)
    engine.run_retention(default=30)
    assert engine.plan(default=30) == []


def test_a_tenant_that_keeps_longer_keeps_its_jobs_when_the_others_go(engine):
    engine.kept_days("acme", 90)
    gone = engine.ended(payload=LARGE)
    stays = engine.ended("acme", payload=LARGE, dedupe_key="k", on_duplicate="reuse")
    failed = engine.failed("acme", payload=LARGE)
    engine.on(40)
    assert ("shrink", "history") in engine.plan(default=30)
    engine.run_retention(default=30)
    assert engine.plan(default=30) == []
    assert engine.there(gone, stays, failed) == [stays, failed]
    assert engine.count("payloads") == 2
    assert engine.job(stays).payload == LARGE

    assert engine.reopen(failed) == "queued"
    assert engine.job(failed).payload == LARGE
    engine.on(95)
    engine.run_retention(default=30)
    assert engine.there(stays, failed) == [failed]
    assert (engine.count("payloads"), engine.count("dedupe_keys")) == (1, 0)


def test_attempts_and_logs_of_a_tenant_that_keeps_longer_stay_as_well(engine):
    engine.kept_days("acme", 90)
    for tenant in ("acme", "default"):
        job = engine.start(tenant_id=tenant)
        engine.value(
            "select posthouse.write_log(%s, %s, '{0}', '{log}', '{info}', '{hello}')", [job.id], [job.token]
        )
        engine.retry(job)
        engine.succeed(engine.claim_one())
    engine.on(40)
    engine.run_retention(default=30)
    for table in ("history", "past_attempts", "log_lines"):
        assert engine.rows(f"select tenant_id from posthouse.{table}") == [("acme",)], table


def test_a_partition_that_was_shrunk_has_all_that_a_partition_has(engine):
    """Its indexes belong to those of the table, and it takes what the table takes."""
    engine.kept_days("acme", 90)
    engine.ended("acme")
    engine.on(40)
    part = engine.value("select tableoid::regclass::text from posthouse.history")
    engine.run_retention(default=30)
    assert engine.value("select tableoid::regclass::text from posthouse.history") == part
    indexes = (
        "select i.inhparent::regclass::text from pg_index x join pg_inherits i on i.inhrelid = x.indexrelid "
        "where x.indrelid = %s::regclass order by 1"
    )
    other = engine.value("select 'posthouse.' || partition from posthouse.partitions() "
                         "where relation = 'history' order by starts_at desc limit 1")  # fmt: skip
    assert engine.rows(indexes, part) == engine.rows(indexes, other)
    assert engine.rows("select conname from pg_constraint where conname = 'within_range'") == []


def test_a_tenant_that_is_like_the_others_again_loses_what_it_kept(engine):
    engine.kept_days("acme", 90)
    engine.kept_days("other", 90)
    acme, other = engine.ended("acme"), engine.ended("other")
    engine.on(40)
    engine.run_retention(default=30)
    assert engine.there(acme, other) == [acme, other]
    engine.kept_days("acme", None)
    engine.run_retention(default=30)
    assert engine.there(acme, other) == [other]


def test_tenants_whose_time_is_over_leave_a_partition_that_others_keep(engine):
    engine.kept_days("long", 90)
    engine.kept_days("longer", 200)
    long, longer = engine.ended("long"), engine.ended("longer")
    engine.on(40)
    engine.run_retention(default=30)
    engine.on(100)
    engine.run_retention(default=30)
    assert engine.there(long, longer) == [longer]
    engine.on(210)
    engine.run_retention(default=30)
    assert engine.there(longer) == []


def test_a_retry_while_a_partition_is_being_shrunk_leaves_one_job(engine):
    """Between the copy and the swap: the job has left the partition, and its copy must not come back."""
    engine.kept_days("acme", 90)
    retried, stays = engine.failed("acme", payload=LARGE), engine.failed("acme")
    engine.on(40)
    part = engine.value(
        "select partition from posthouse.partitions() where relation = 'history' order by 1 limit 1"
    )
    assert engine.value("select posthouse.copy_retained_rows(%s, '{acme}')", part) == 2
    assert engine.reopen(retried) == "queued"
    assert engine.value("select posthouse.swap_partition(%s, '{acme}')", part)
    assert (engine.status(retried), engine.status(stays)) == ("queued", "failed")
    engine.run_retention(default=30)
    assert engine.job(retried).payload == LARGE


def test_retries_and_a_purge_at_once_lose_no_payload(engine):
    """A job is either retried, with its payload, or gone with it."""
    engine.kept_days("brief", 2)
    jobs = [engine.failed("brief", payload=LARGE) for _ in range(40)]
    engine.on(4)

    def retry():
        with engine.new_connection() as other:
            for job in jobs:
                other.reopen(job)

    def purge():
        engine.run_retention(default=30)

    run_concurrently(retry, purge)
    engine.run_retention(default=30)
    left = engine.there(*jobs)
    assert {engine.status(job) for job in left} <= {"queued"}
    assert engine.count("payloads") == len(left)
    assert all(engine.job(job).payload == LARGE for job in left)


def test_changes_of_a_tenants_days_are_on_record(engine):
    engine.kept_days("acme", 90)
    engine.kept_days("acme", 90)
    engine.kept_days("acme", None)
    notes = engine.rows(
        "select action, tenant_id, before, after from posthouse.audit"
        " where action = 'tenant.retention' order by id"
    )
    assert [json.loads(json.dumps(note)) for note in notes] == [
        ["tenant.retention", "acme", {"retention_days": None}, {"retention_days": 90}],
        ["tenant.retention", "acme", {"retention_days": 90}, {"retention_days": None}],
    ]
