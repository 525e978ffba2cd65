"""From a written rule to its vector: the trigger, the batches, what is computed."""

import random

import psycopg
import pytest

from embeddings.rulebook import Rulebook
from embeddings.store import statement
from posthouse import testing

ADD = """insert into embeddings.rules (tenant_id, rule_id, title, guidance, rationale, priority)
    values (%s, %s, %s, %s, %s, %s) returning id"""


@pytest.fixture
def add(product):
    def add(
        rule_id, title="Log no secrets", guidance="Never.", rationale=None, *, priority="medium", tenant="a"
    ):
        (row,) = product.rows(ADD, tenant, rule_id, title, guidance, rationale, priority)
        return row["id"]

    return add


@pytest.fixture
def write(product):
    """Writes many rules at once, as an import does."""

    def write(size, copies=0.0, tenant="a"):
        with psycopg.connect(product.settings.database_url) as db:
            db.execute(statement("demo_rules"), Rulebook().rules(size, copies) | {"tenant": tenant})

    return write


def jobs_of(product):
    return product.rows("select * from embeddings.embedding_jobs order by created_at, id")


async def test_a_rule_is_enqueued_with_its_text_in_the_transaction_that_writes_it(product, add):
    with psycopg.connect(product.settings.database_url) as db:
        db.execute(ADD, ("a", "R-0", "t", "g", None, "low"))
        db.rollback()
    rule = add("R-1", "Log no secrets", "Never log tokens.", "They leak.", tenant="acme")
    (job,) = await testing.enqueued(product.app)
    text = "Log no secrets Never log tokens. They leak."
    (known,) = product.rows("select md5(%s) as hash", text)
    assert job["payload"] == {"rule_id": str(rule), "input_text": text, "text_hash": known["hash"]}
    assert (job["kind"], job["queue"], job["tenant_id"]) == ("embeddings.embed", "embeddings", "acme")
    assert (job["source"], job["subject"], job["max_attempts"]) == ("event", "rule R-1", 3)


async def test_the_priority_of_the_job_comes_from_the_rule(product, add):
    for priority in ("critical", "high", "medium", "low"):
        add(f"R-{priority}", priority=priority)
    found = [(job["status"], job["priority"]) for job in jobs_of(product)]
    assert found == [("pending", priority) for priority in ("urgent", "high", "normal", "normal")]


async def test_only_another_text_makes_another_job(product, add):
    rule = add("R-1", "Title", "Guidance", "Reason")
    assert await testing.drain(product.app) == {"succeeded": 1}
    change = "update embeddings.rules set {} where id = %s returning id"
    product.rows(change.format("priority = 'critical'"), rule)
    product.rows(change.format("title = title, rationale = 'Reason'"), rule)
    assert await testing.enqueued(product.app) == []
    product.rows(change.format("rationale = null"), rule)
    assert len(await testing.enqueued(product.app)) == 1
    assert await testing.drain(product.app) == {"succeeded": 1}
    (found,) = product.rows("select embedded_hash = text_hash as current from embeddings.rules")
    assert found["current"]


async def test_of_equal_texts_one_is_computed(product, write):
    write(40, copies=0.3)
    write(10, tenant="b")
    assert await testing.drain(product.app) == {"succeeded": 50}
    rows = product.rows("""select project_id, count(*) filter (where reused) as reused, count(*) as jobs
        from embeddings.embedding_jobs group by 1 order by 1""")
    assert rows == [
        {"project_id": "a", "reused": 12, "jobs": 40},
        {"project_id": "b", "reused": 0, "jobs": 10},
    ]
    (found,) = product.rows("""select count(*) as rules, count(distinct text_hash) as texts,
        bool_and(embedding is not null and embedded_hash = text_hash) as embedded,
        (select count(*) from embeddings.vectors where tenant_id = 'a') as vectors
        from embeddings.rules where tenant_id = 'a'""")
    assert found == {"rules": 40, "texts": 28, "embedded": True, "vectors": 28}


async def test_a_vector_outlives_its_rule_and_is_used_again(product, add):
    rule = add("R-1", "Title", "Guidance")
    await testing.drain(product.app)
    product.rows("delete from embeddings.rules where id = %s returning id", rule)
    add("R-2", "Title", "Guidance")
    await testing.drain(product.app)
    assert [job["reused"] for job in jobs_of(product)] == [False, True]


async def test_a_text_that_another_batch_has_in_hand_is_waited_for(product, add):
    add("R-1", "Title", "Guidance")
    (job,) = jobs_of(product)
    texts = {"tenants": ["a"], "models": ["all-MiniLM-L6-v2"], "hashes": [job["text_hash"]]}
    with psycopg.connect(product.settings.database_url) as other:
        assert other.execute(statement("take_texts"), texts).fetchall() == [(1, True)]
        worker = await product.app.worker(poll_seconds=0.05)
        await worker.start()
        await product.until(lambda: product.rows("select from posthouse.jobs where snoozes > 0"), "a snooze")
        other.rollback()
        await product.until_ended()
        await worker.stop()
    (job,) = product.rows("select status, attempt_count from posthouse.jobs")
    assert job == {"status": "succeeded", "attempt_count": 1}


async def test_jobs_of_changed_and_deleted_rules_compute_nothing(product, add):
    changed, deleted = add("R-1", "First"), add("R-2", "Other")
    product.rows("update embeddings.rules set title = 'Second' where id = %s returning id", changed)
    product.rows("delete from embeddings.rules where id = %s returning id", deleted)
    assert await testing.drain(product.app) == {"succeeded": 1, "canceled": 2}
    (vector,) = product.rows("select text_hash from embeddings.vectors")
    (rule,) = product.rows("select embedded_hash, text_hash from embeddings.rules")
    assert vector["text_hash"] == rule["text_hash"] == rule["embedded_hash"]


async def test_a_text_changed_there_and_back_has_its_vector(product, add):
    rule = add("R-1", "First")
    for title in ("Second", "First"):
        product.rows("update embeddings.rules set title = %s where id = %s returning id", title, rule)
    assert len(await testing.enqueued(product.app)) == 2, "the first job still stands for the first text"
    await testing.drain(product.app)
    (found,) = product.rows("select embedded_hash = text_hash as current from embeddings.rules")
    assert found["current"]


async def test_rules_that_say_nothing_are_refused(product):
    with pytest.raises(psycopg.errors.CheckViolation, match="rules_say_something"):
        product.rows(ADD, "a", "R-1", " ", "\t", None, "low")
    with pytest.raises(psycopg.errors.CheckViolation, match="rules_priority_known"):
        product.rows(ADD, "a", "R-1", "Title", "Guidance", None, "urgent")


async def test_a_worker_killed_in_the_middle_leaves_nothing_undone_and_nothing_doubled(product, write):
    after = random.SystemRandom().randrange(100)
    print(f"killed after {after} jobs")  # noqa: T201 - pytest shows it if it fails
    write(250, copies=0.4)
    worker = await product.worker()
    ended = "select count(*) as jobs from posthouse.jobs where status = 'succeeded'"
    running = "select from posthouse.jobs where status = 'running'"
    await product.until(
        lambda: product.rows(ended)[0]["jobs"] >= after and product.rows(running), "half of it"
    )
    product.kill(worker)
    await product.worker()
    await product.until_ended()
    assert product.statuses() == {("embeddings.embed", "succeeded"): 250}
    (found,) = product.rows("""select count(*) as rules, count(distinct text_hash) as texts,
        bool_and(embedded_hash = text_hash) as embedded, (select count(*) from embeddings.vectors) as vectors
        from embeddings.rules""")
    assert found == {"rules": 250, "texts": 150, "embedded": True, "vectors": 150}
    (health,) = product.rows("select sum(count)::integer as jobs from embeddings.queue_health")
    assert health["jobs"] == 250


async def test_a_schema_without_pgvector_says_what_is_missing(product):
    text = product.app.schema.read_text().replace("name = 'vector'", "name = 'no such thing'")
    with (
        psycopg.connect(product.settings.database_url) as db,
        pytest.raises(psycopg.errors.FeatureNotSupported, match=r"needs pgvector 0\.8 or newer.* has none"),
    ):
        db.execute(text)


async def test_a_payload_that_is_none_of_ours_ends_alone(product, add):
    add("R-1")
    product.rows(
        "select posthouse.enqueue('embeddings.embed', '{\"rule_id\": \"x\"}', queue => 'embeddings')"
    )
    assert await testing.drain(product.app) == {"succeeded": 1, "dead_letter": 1}
    (failed,) = product.rows("select * from embeddings.embedding_job_failures")
    assert "input_text: Field required" in failed["error_message"]
