"""From a written rule to its vector: the trigger, the batches, what is computed."""

import asyncio
import random
from uuid import uuid4

import psycopg
import pytest

from embeddings import batch_embedder, handlers, store
from embeddings.db import sql
from embeddings.sample_rules import SampleRules
from posthouse import App, Job, testing
from support.waiting import eventually

ADD = """insert into embeddings.rules (tenant_id, rule_id, title, guidance, rationale, priority)
    values (%s, %s, %s, %s, %s, %s) returning id"""


@pytest.fixture
def add(running_app):
    def add(
        rule_id, title="Log no secrets", guidance="Never.", rationale=None, *, priority="medium", tenant="a"
    ):
        (row,) = running_app.rows(ADD, tenant, rule_id, title, guidance, rationale, priority)
        return row["id"]

    return add


@pytest.fixture
def write(running_app):
    """Writes many rules at once, as an import does."""

    def write(size, copies=0.0, tenant="a"):
        with psycopg.connect(running_app.settings.database_url) as db:
            db.execute(sql("demo_rules"), SampleRules().rules(size, copies) | {"tenant": tenant})

    return write


def jobs_of(running_app):
    return running_app.rows("select * from embeddings.embedding_jobs order by created_at, id")


async def test_a_rule_is_enqueued_with_its_text_in_the_transaction_that_writes_it(running_app, add):
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute(ADD, ("a", "R-0", "t", "g", None, "low"))
        db.rollback()
    rule = add("R-1", "Log no secrets", "Never log tokens.", "They leak.", tenant="acme")
    (job,) = await testing.enqueued(running_app.app)
    text = "Log no secrets Never log tokens. They leak."
    (known,) = running_app.rows("select md5(%s) as hash", text)
    assert job["payload"] == {"rule_id": str(rule), "input_text": text, "text_hash": known["hash"]}
    assert (job["kind"], job["queue"], job["tenant_id"]) == ("embeddings.embed", "embeddings", "acme")
    assert (job["source"], job["subject"], job["max_attempts"]) == ("event", f"rule {rule}", 3)


async def test_the_priority_of_the_job_comes_from_the_rule(running_app, add):
    for priority in ("critical", "high", "medium", "low"):
        add(f"R-{priority}", priority=priority)
    found = [(job["status"], job["priority"]) for job in jobs_of(running_app)]
    assert found == [("pending", priority) for priority in ("urgent", "high", "normal", "normal")]


async def test_only_another_text_makes_another_job(running_app, add):
    rule = add("R-1", "Title", "Guidance", "Reason")
    assert await testing.drain(running_app.app) == {"succeeded": 1}
    change = "update embeddings.rules set {} where id = %s returning id"
    running_app.rows(change.format("priority = 'critical'"), rule)
    running_app.rows(change.format("title = title, rationale = 'Reason'"), rule)
    assert await testing.enqueued(running_app.app) == []
    running_app.rows(change.format("rationale = null"), rule)
    assert len(await testing.enqueued(running_app.app)) == 1
    assert await testing.drain(running_app.app) == {"succeeded": 1}
    (found,) = running_app.rows("select embedded_hash = text_hash as current from embeddings.embedded_rules")
    assert found["current"]


async def test_of_equal_texts_one_is_computed(running_app, write):
    write(40, copies=0.3)
    write(10, tenant="b")
    assert await testing.drain(running_app.app) == {"succeeded": 50}
    rows = running_app.rows("""select project_id, count(*) filter (where reused) as reused, count(*) as jobs
        from embeddings.embedding_jobs group by 1 order by 1""")
    assert rows == [
        {"project_id": "a", "reused": 12, "jobs": 40},
        {"project_id": "b", "reused": 0, "jobs": 10},
    ]
    (found,) = running_app.rows("""select count(*) as rules, count(distinct text_hash) as texts,
        bool_and(embedded_hash = text_hash) as embedded,
        (select count(*) from embeddings.vectors where tenant_id = 'a') as vectors
        from embeddings.embedded_rules where tenant_id = 'a'""")
    assert found == {"rules": 40, "texts": 28, "embedded": True, "vectors": 28}


async def test_a_deleted_rule_leaves_no_text_and_no_vector_that_no_other_rule_uses(running_app, add):
    alone, shared = add("R-1", "Only here"), add("R-2", "Title", "Guidance")
    add("R-3", "Title", "Guidance")
    await testing.drain(running_app.app)
    for rule in (alone, shared):
        running_app.rows("delete from embeddings.rules where id = %s returning id", rule)
    (vector,) = running_app.rows("select text_hash from embeddings.vectors")
    (left,) = running_app.rows("select text_hash from embeddings.rules")
    assert vector == left
    texts = running_app.rows("select input_text from embeddings.embedding_jobs where input_text is not null")
    assert texts == [{"input_text": "Title Guidance "}], "that of the rule that is left"


async def test_unused_vectors_are_deleted_after_thirty_days(running_app, add):
    changed, kept = add("R-1", "First"), add("R-2", "Other")
    await testing.drain(running_app.app)
    running_app.rows("update embeddings.rules set title = 'Second' where id = %s returning id", changed)
    await testing.drain(running_app.app)
    count = "select count(*)::integer as vectors from embeddings.vectors"
    async with testing.clock(running_app.app) as clock:
        for days, left in ((0, 3), (29, 3), (1, 2), (60, 2)):
            await clock.advance(f"{days}d")
            await running_app.app.client.enqueue("embeddings.sweep", {})
            await testing.drain(running_app.app)
            assert running_app.rows(count) == [{"vectors": left}], f"after {days} more days"
    assert kept in {row["id"] for row in running_app.rows("select id from embeddings.embedded_rules")}


async def test_an_unused_vector_that_is_used_again_stays(running_app, add):
    rule = add("R-1", "First")
    await testing.drain(running_app.app)
    async with testing.clock(running_app.app) as clock:
        for title in ("Second", "First"):
            running_app.rows("update embeddings.rules set title = %s where id = %s returning id", title, rule)
            await testing.drain(running_app.app)
            await running_app.app.client.enqueue("embeddings.sweep", {})
            await testing.drain(running_app.app)
            await clock.advance("29d")
        await clock.advance("1d")
        await running_app.app.client.enqueue("embeddings.sweep", {})
        await testing.drain(running_app.app)
    (vector,) = running_app.rows("select unused_since from embeddings.vectors")
    assert vector == {"unused_since": None}
    assert [job["reused"] for job in jobs_of(running_app)] == [False, False, True]


async def test_vectors_are_found_before_during_and_after_they_are_indexed(
    running_app, add, write, monkeypatch
):
    write(30)
    chosen = add("R-chosen")
    write(30, tenant="b")
    await testing.drain(running_app.app)
    monkeypatch.setattr(handlers, "INDEXED_AT_ONCE", 10)

    async def near():
        async with await psycopg.AsyncConnection.connect(running_app.settings.database_url) as db:
            return [row["rule_id"] for row in await store.near_rule(db, chosen, 5)]

    async def indexed():
        await running_app.app.client.enqueue("embeddings.index", {})
        await testing.drain(running_app.app)
        (row,) = running_app.rows("""select count(*) filter (where tenant_id = 'a')::integer as a,
            count(*) filter (where tenant_id = 'b')::integer as b from embeddings.vectors where is_indexed""")
        return row

    before = await near()
    assert await indexed() == {"a": 0, "b": 0}, "few vectors need no index"
    running_app.rows("""update embeddings.vectors set is_indexed = true
        where tenant_id = 'a' and text_hash in (
        select text_hash from embeddings.rules where tenant_id = 'a' limit 15) returning true""")
    assert await near() == before
    monkeypatch.setattr(store, "EXACT", 30)
    assert await indexed() == {"a": 15, "b": 0}, "as many as may be searched without the index"
    monkeypatch.setattr(store, "EXACT", 15)
    assert await indexed() == {"a": 31, "b": 30}
    assert await near() == before


async def test_too_many_vectors_for_an_exact_search_are_indexed(running_app, add, write, monkeypatch):
    monkeypatch.setattr(store, "EXACT", 20)
    monkeypatch.setattr(store, "SAMPLED", "")
    write(20)
    assert await testing.drain(running_app.app) == {"succeeded": 20}
    write(10, tenant="b")
    assert await testing.drain(running_app.app) == {"succeeded": 10}
    add("R-one-more", "One more")
    assert await testing.drain(running_app.app) == {"succeeded": 2}, "its own job, and the one that indexes"
    rows = running_app.rows(
        "select tenant_id, is_indexed, count(*)::integer from embeddings.vectors group by 1, 2 order by 1"
    )
    assert [tuple(row.values()) for row in rows] == [("a", True, 21), ("b", False, 10)]


async def test_indexing_waits_while_texts_wait_to_be_embedded(running_app, write, monkeypatch):
    monkeypatch.setattr(store, "EXACT", 5)
    write(10)
    await testing.drain(running_app.app)
    write(10, tenant="b")

    async def indexed():
        await running_app.app.client.enqueue("embeddings.index", {}, queue="indexing")
        await testing.drain(running_app.app, queues=("indexing",))
        return running_app.rows(
            "select count(*)::integer as vectors from embeddings.vectors where is_indexed"
        )

    assert await indexed() == [{"vectors": 0}]
    monkeypatch.setattr(store, "EXACT_WHEN_BUSY", 5)
    assert await indexed() == [{"vectors": 10}], "searches would become slow"


async def test_indexing_leaves_vectors_that_another_transaction_deletes(running_app, add, monkeypatch):
    deleted, _ = add("R-1", "One"), add("R-2", "Two")
    await testing.drain(running_app.app)
    monkeypatch.setattr(store, "EXACT", 1)
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute("delete from embeddings.rules where id = %s", (deleted,))
        await running_app.app.client.enqueue("embeddings.index", {})
        assert await testing.drain(running_app.app) == {"succeeded": 1}
        (found,) = running_app.rows("select count(*) as indexed from embeddings.vectors where is_indexed")
        assert found == {"indexed": 1}


LEASED = """insert into embeddings.leases (tenant_id, model, text_hash, job_id, token, taken_at, expires_at)
    select tenant_id, 'local/all-MiniLM-L6-v2/int8', payload ->> 'text_hash', %s, gen_random_uuid(),
      posthouse.now(), posthouse.now() + interval '2 minutes'
    from posthouse.jobs where id = %s returning text_hash"""


@pytest.fixture
def lease(running_app):
    """Gives the text of a job to another job, whose worker has claimed it and computes."""

    def lease(job_id):
        other = running_app.rows("select posthouse.enqueue('elsewhere', '{}', queue => 'elsewhere') as id")[
            0
        ]["id"]
        running_app.rows(LEASED, other, job_id)
        return other

    return lease


async def test_a_text_that_a_running_job_computes_is_waited_for(running_app, add):
    add("R-1", "Title", "Guidance")
    (job,) = jobs_of(running_app)
    release, began = asyncio.Event(), asyncio.Event()
    other = App(settings=running_app.settings)

    @other.job("elsewhere", queue="elsewhere")
    async def elsewhere(running: Job) -> None:
        running_app.rows(LEASED, running.id, job["id"])
        began.set()
        await release.wait()

    await other.client.enqueue("elsewhere", {}, queue="elsewhere")
    elsewhere_worker = await other.worker(poll_seconds=0.05)
    worker = await running_app.app.worker(poll_seconds=0.05)
    await elsewhere_worker.start()
    await began.wait()
    await worker.start()
    await running_app.until(
        lambda: running_app.rows("select from posthouse.jobs where snoozes > 0"), "a snooze"
    )
    assert running_app.rows("select from embeddings.vectors") == []
    release.set()
    await running_app.until_ended()
    await elsewhere_worker.stop()
    await worker.stop()
    await other.close()
    (job,) = running_app.rows(
        "select status, attempt_count from posthouse.jobs where kind = 'embeddings.embed'"
    )
    assert job == {"status": "succeeded", "attempt_count": 1}
    assert running_app.rows("select from embeddings.leases") == []


async def test_leases_are_given_up_in_the_order_in_which_they_are_taken(running_app, add):
    """Otherwise two batches deadlock: one gives up leases that the other one tries to take."""
    add("R-1")
    (job,) = await testing.enqueued(running_app.app)
    token = uuid4()
    texts = [store.Text("a", "m", text_hash) for text_hash in ("2", "1")]
    requests = [store.Request(text, "", uuid4(), job["id"], token) for text in texts]
    url = running_app.settings.database_url
    async with (
        await psycopg.AsyncConnection.connect(url) as other,
        await psycopg.AsyncConnection.connect(url) as db,
    ):
        await store.take(db, requests)
        await db.commit()
        await other.execute("select from embeddings.leases where text_hash = '1' for update")
        releasing = asyncio.create_task(store.release(db, requests))
        blocked = "select from pg_locks where not granted and pid = %s"
        await eventually(lambda: running_app.rows(blocked, db.info.backend_pid))
        await other.execute("select from embeddings.leases where text_hash = '2' for update nowait")
        await other.rollback()
        await releasing
        await db.commit()
    assert running_app.rows("select from embeddings.leases") == []


async def test_the_text_of_a_job_that_no_longer_runs_is_taken_over(running_app, add, lease):
    add("R-1", "Title", "Guidance")
    (job,) = jobs_of(running_app)
    lease(job["id"])
    assert await testing.drain(running_app.app) == {"succeeded": 1}
    assert running_app.rows("select from embeddings.leases") == []


async def test_no_transaction_is_open_while_the_model_computes(running_app, add, monkeypatch):
    add("R-1", "Title", "Guidance")
    seen = []

    async def embed(_model, texts):
        seen.extend(
            running_app.rows("""select query from pg_stat_activity where datname = current_database()
            and pid <> pg_backend_pid() and xact_start is not null and query like '%%embeddings.%%'""")
        )
        return [[1.0, 0.0]] * len(texts)

    monkeypatch.setattr(batch_embedder, "embed", embed)
    assert await testing.drain(running_app.app) == {"succeeded": 1}
    assert seen == []


async def test_jobs_of_changed_and_deleted_rules_compute_nothing(running_app, add):
    changed, deleted = add("R-1", "First"), add("R-2", "Other")
    running_app.rows("update embeddings.rules set title = 'Second' where id = %s returning id", changed)
    running_app.rows("delete from embeddings.rules where id = %s returning id", deleted)
    assert await testing.drain(running_app.app) == {"succeeded": 1, "canceled": 1}
    assert sorted(job["status"] for job in jobs_of(running_app)) == ["canceled", "canceled", "completed"]
    (vector,) = running_app.rows("select text_hash from embeddings.vectors")
    (rule,) = running_app.rows("select embedded_hash, text_hash from embeddings.embedded_rules")
    assert vector["text_hash"] == rule["text_hash"] == rule["embedded_hash"]


async def test_a_text_changed_there_and_back_has_its_vector(running_app, add):
    rule = add("R-1", "First")
    for title in ("Second", "First"):
        running_app.rows("update embeddings.rules set title = %s where id = %s returning id", title, rule)
    assert len(await testing.enqueued(running_app.app)) == 2, "the first job still stands for the first text"
    await testing.drain(running_app.app)
    (found,) = running_app.rows("select embedded_hash = text_hash as current from embeddings.embedded_rules")
    assert found["current"]


async def test_a_rule_is_found_by_its_previous_text_until_the_new_one_has_a_vector(running_app, add):
    rule = add("R-1", "First")
    await testing.drain(running_app.app)
    served = "select embedded_hash = md5(%s) as served from embeddings.embedded_rules"
    for title in ("Second", "Third"):
        running_app.rows("update embeddings.rules set title = %s where id = %s returning id", title, rule)
        assert running_app.rows(served, "First Never. ") == [{"served": True}]
    (near,) = running_app.rows("""select r.id from embeddings.embedded_rules as e
        cross join embeddings.nearest('a', e.embedding_model, e.embedding, 5) as n
        cross join embeddings.rules_of('a', e.embedding_model, n.text_hash) as r""")
    assert near["id"] == rule
    await testing.drain(running_app.app)
    assert running_app.rows(served, "Third Never. ") == [{"served": True}]
    assert running_app.rows("select previous_hash from embeddings.rules") == [{"previous_hash": None}]


async def test_a_requested_job_is_the_one_of_a_new_rule_until_it_ends(running_app, add):
    rule = add("R-1")
    (queued,) = await testing.enqueued(running_app.app)
    again = "select embeddings.request_by_id(%s, 'low', null, 'ada') as id"
    assert running_app.rows(again, rule) == [{"id": queued["id"]}]
    await testing.drain(running_app.app)
    assert running_app.rows(again, rule) != [{"id": queued["id"]}]


async def test_rules_that_say_nothing_are_refused(running_app):
    with pytest.raises(psycopg.errors.CheckViolation, match="rules_say_something"):
        running_app.rows(ADD, "a", "R-1", " ", "\t", None, "low")
    with pytest.raises(psycopg.errors.CheckViolation, match="rules_priority_known"):
        running_app.rows(ADD, "a", "R-1", "Title", "Guidance", None, "urgent")


async def test_a_worker_killed_in_the_middle_leaves_nothing_undone_and_nothing_doubled(running_app, write):
    after = random.SystemRandom().randrange(300)
    print(f"killed after {after} jobs")  # noqa: T201 - pytest shows it if it fails
    write(750, copies=0.4)  # five batches
    worker = await running_app.worker()
    ended = "select count(*) as jobs from posthouse.jobs where status = 'succeeded'"
    running = "select from posthouse.jobs where status = 'running'"
    await running_app.until(
        lambda: running_app.rows(ended)[0]["jobs"] >= after and running_app.rows(running), "half of it"
    )
    running_app.kill(worker)
    await running_app.worker()
    await running_app.until_ended()
    assert running_app.statuses() == {("embeddings.embed", "succeeded"): 750}
    (found,) = running_app.rows("""select count(*) as rules, count(distinct text_hash) as texts,
        bool_and(embedded_hash = text_hash) as embedded, (select count(*) from embeddings.vectors) as vectors
        from embeddings.embedded_rules""")
    assert found == {"rules": 750, "texts": 450, "embedded": True, "vectors": 450}
    (health,) = running_app.rows("select sum(count)::integer as jobs from embeddings.queue_health")
    assert health["jobs"] == 750


async def test_a_schema_without_pgvector_says_what_is_missing(running_app):
    text = running_app.app.schema.read_text().replace("name = 'vector'", "name = 'no such thing'")
    with (
        psycopg.connect(running_app.settings.database_url) as db,
        pytest.raises(psycopg.errors.FeatureNotSupported, match=r"needs pgvector 0\.8 or newer.* has none"),
    ):
        db.execute(text)


async def test_a_payload_that_is_none_of_ours_ends_alone(running_app, add):
    add("R-1")
    running_app.rows(
        "select posthouse.enqueue('embeddings.embed', '{\"rule_id\": \"x\"}', queue => 'embeddings')"
    )
    assert await testing.drain(running_app.app) == {"succeeded": 1, "dead_letter": 1}
    (failed,) = running_app.rows("select * from embeddings.embedding_job_failures")
    assert "input_text: Field required" in failed["error_message"]
