"""Providers over HTTP, and what their answers do to jobs."""

import psycopg
import pytest
from fake_provider import MAX_CHARS, serving, vector_of

from embeddings.db import sql
from embeddings.providers import Rejected, provider
from embeddings.sample_rules import SampleRules
from posthouse import testing


@pytest.fixture
def fake():
    with serving() as fake:
        yield fake


@pytest.fixture
def use(fake, monkeypatch):
    """Another provider for this test."""

    def use(name, **settings):
        path = "/v1" if name == "openai" else ""
        named = {"provider": name, "url": f"{fake.url}{path}/", **settings}
        for key, value in named.items():
            monkeypatch.setenv(f"EMBEDDINGS_{key.upper()}", value)
        return provider()

    return use


@pytest.fixture
def write(running_app):
    def write(size, copies=0.0, **changed):
        rules = SampleRules().rules(size, copies) | {"tenant": "a"}
        for column, value in changed.items():
            rules[column][0] = value
        with psycopg.connect(running_app.settings.database_url) as db:
            db.execute(sql("demo_rules"), rules)

    return write


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("ollama", "nomic-embed-text"),
        pytest.param("openai", "text-embedding-3-small", marks=pytest.mark.soak),
    ],
)
async def test_a_provider_takes_fifty_texts_at_once(running_app, fake, use, write, *, name, model):
    use(name)
    write(120, copies=0.3)
    while await testing.enqueued(running_app.app):  # a copy waits a moment for a text that another batch has
        await testing.drain(running_app.app)
    assert running_app.statuses() == {("embeddings.embed", "succeeded"): 120}
    sizes = [len(request["input"]) for request in fake.requests]
    assert (sum(sizes), len(set().union(*(request["input"] for request in fake.requests)))) == (84, 84)
    assert max(sizes) <= 50
    assert {request["model"] for request in fake.requests} == {model}
    (job,) = running_app.rows("select * from embeddings.embedding_jobs where not reused limit 1")
    assert (job["embedding_model"], job["embedding_dimensions"]) == (f"{name}/{model}", 768)
    (near,) = running_app.rows(
        "select embedding <=> %s::vector as distance from embeddings.embedded_rules where id = %s",
        str(vector_of(job["input_text"], 768)),
        job["rule_id"],
    )
    assert near["distance"] == pytest.approx(0, abs=1e-6)


async def test_short_vectors_are_filled_up_and_long_ones_refused(running_app, use, write):
    use("ollama", model="ada")
    write(1)
    assert await testing.drain(running_app.app) == {"succeeded": 1}
    (row,) = running_app.rows("select vector_dims(embedding) as room, dimensions from embeddings.vectors")
    assert row == {"room": 768, "dimensions": 512}
    running_app.rows("select embeddings.request_by_id(id, 'low', 'wide', 'ada') from embeddings.rules")
    assert await testing.drain(running_app.app) == {"failed": 1}
    (job,) = running_app.rows("select * from embeddings.embedding_job_failures")
    assert "model ollama/wide returns 4096 dimensions, more than the maximum of 768" in job["error_message"]


async def test_one_text_that_is_refused_does_not_spoil_the_others(running_app, fake, use, write):
    use("ollama")
    write(20, guidances="x" * (MAX_CHARS + 1))
    assert await testing.drain(running_app.app) == {"succeeded": 19, "failed": 1}
    (job,) = running_app.rows("select * from embeddings.embedding_job_failures")
    assert "ollama returned 400: the input length exceeds the context length" in job["error_message"]
    assert (len(job["input_text"]) > MAX_CHARS, job["attempts"]) == (True, 1)


@pytest.mark.parametrize("fault", [429, pytest.param(503, marks=pytest.mark.soak)])
async def test_a_provider_that_is_busy_is_asked_again_after_one_minute_and_then_two(
    running_app, fake, use, write, fault
):
    use("openai")
    write(3)
    fake.faults = [fault, fault]
    async with testing.clock(running_app.app) as clock:
        for wait in (59, 1, 119):
            assert await testing.drain(running_app.app) == {}
            (job,) = running_app.rows("select distinct status, attempts from embeddings.embedding_jobs")
            assert job["status"] == "retrying"
            await clock.advance(wait)
        assert len(fake.requests) == 2
        await clock.advance(1)
        assert await testing.drain(running_app.app) == {"succeeded": 3}
    attempts = running_app.rows("select distinct outcome, error_message from posthouse.attempts order by 1")
    message = f"openai returned {fault}: fault {fault}"
    assert [(each["outcome"], each["error_message"]) for each in attempts] == [
        ("failed", message), ("succeeded", None)
    ]  # fmt: skip


async def test_an_unreachable_provider_fails_after_three_attempts(running_app, fake, use, write):
    use("ollama")
    write(2)
    fake.faults = [500] * 6  # the texts may come in two batches
    async with testing.clock(running_app.app) as clock:
        for _ in range(2):
            await testing.drain(running_app.app)
            await clock.advance("5m")
        assert await testing.drain(running_app.app) == {"dead_letter": 2}
    (health,) = running_app.rows("select status, count from embeddings.queue_health")
    assert health == {"status": "failed", "count": 2}


async def test_texts_with_a_vector_need_no_provider(running_app, fake, use, write):
    use("ollama")
    write(5)
    await testing.drain(running_app.app)
    fake.faults = [500] * 3
    running_app.rows("update embeddings.rules set title = 'Other' where rule_id = 'R-1' returning id")
    again = "select embeddings.request_by_id(id, 'low', null, 'ada') from embeddings.rules"
    running_app.rows(again)
    assert await testing.drain(running_app.app) == {"succeeded": 4}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": "unheard-of"}, "returned 404: model 'unheard-of' not found"),
        ({"key": "wrong"}, "returned 401: wrong key"),
    ],
)
async def test_what_a_retry_would_not_mend_fails_at_once(running_app, fake, use, write, *, wrong, message):
    fake.key = "right"
    use("openai", **{"key": "right", **wrong})
    write(3)
    assert await testing.drain(running_app.app) == {"failed": 3}
    assert len(fake.requests) == 1
    (job, *_) = running_app.rows("select * from embeddings.embedding_job_failures")
    assert message in job["error_message"]


@pytest.mark.parametrize(
    "garbled",
    [
        {"embeddings": [[1.0]]},
        {"embeddings": "none"},
        {},
        [],
        {"embeddings": [[1.0], [1.0, 2.0]]},
        {"embeddings": [[1.0], ["x"]]},
    ],
)
async def test_answers_that_are_no_vectors_are_refused(fake, use, garbled):
    found = use("ollama")
    fake.garbled = garbled
    with pytest.raises((ValueError, TypeError), match=r"invalid response of (the provider|ollama)"):
        await found.embed("nomic-embed-text", ["one", "two"])


async def test_a_model_that_a_job_names_is_asked_for(running_app, fake, use, write):
    use("ollama")
    write(1)
    await testing.drain(running_app.app)
    running_app.rows("select embeddings.request_by_id(id, 'urgent', 'ada', 'ada') from embeddings.rules")
    assert await testing.drain(running_app.app) == {"succeeded": 1}
    assert [request["model"] for request in fake.requests] == ["nomic-embed-text", "ada"]
    jobs = running_app.rows(
        "select embedding_model, embedding_vector is not null as has_vector from embeddings.embedding_jobs"
    )
    assert {(job["embedding_model"], job["has_vector"]) for job in jobs} == {
        ("ollama/nomic-embed-text", True), ("ollama/ada", True)
    }  # fmt: skip
    (rule,) = running_app.rows("select embedding_model from embeddings.embedded_rules")
    assert rule["embedding_model"] == "ollama/nomic-embed-text", "searches still find the rule"


async def test_the_local_provider_has_one_model():
    with pytest.raises(Rejected, match="does not have model nomic; it has all-MiniLM-L6-v2/int8"):
        await provider().embed("nomic", ["text"])


def test_an_unknown_provider_is_rejected(use):
    with pytest.raises(
        ValueError, match="invalid EMBEDDINGS_PROVIDER 'crystal': expected one of local, ollama, openai"
    ):
        use("crystal")
