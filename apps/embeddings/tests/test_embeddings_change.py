"""The change of the model: in the background, paused and resumed, and switched at once."""

import json
import os
import subprocess
import sys

import pytest
from fake_provider import MAX_CHARS, serving

from embeddings.reembedding import batch_size, delay
from posthouse import testing

OLD, NEW = "ollama/nomic-embed-text", "ollama/ada"


@pytest.fixture
def fake(monkeypatch):
    with serving() as fake:
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "ollama")
        monkeypatch.setenv("EMBEDDINGS_URL", fake.url)
        yield fake


@pytest.fixture
async def ada(running_app):
    return await running_app.client_for("tenant-admin", "acme")


@pytest.fixture
async def operator(running_app):
    return await running_app.client_for("super-admin")


async def add(client, rule_id, guidance):
    body = {"rule_id": rule_id, "title": rule_id, "guidance": guidance}
    answer = await client.post("/embeddings/rules", json=body)
    assert answer.status_code == 201, answer.text
    return f"/embeddings/rules/{answer.json()['id']}"


async def found(client):
    rules = (await client.get("/embeddings/search", params={"q": "anything"})).json()
    return sorted(rule["rule_id"] for rule in rules)


async def test_searches_use_the_old_model_until_all_texts_have_a_vector_of_the_new_one(
    running_app, fake, ada, operator
):
    first = await add(ada, "R-1", "one")
    await add(ada, "R-2", "two")
    await testing.drain(running_app.app)
    started = await operator.post("/embeddings/model", json={"model": "ada"})
    assert (started.status_code, started.json()["next"], started.json()["done"]) == (202, NEW, 0)
    paused = (await operator.patch("/embeddings/model", json={"is_paused": True})).json()
    assert (paused["active"], paused["is_paused"]) == (OLD, True)
    await testing.drain(running_app.app)
    assert (await operator.get("/embeddings/model")).json()["done"] == 0, "a paused change computes nothing"
    await add(ada, "R-3", "three, written during the change")
    await ada.patch(first, json={"guidance": "changed during the change"})
    await testing.drain(running_app.app)
    assert await found(ada) == ["R-1", "R-2", "R-3"]
    assert fake.requests[-1]["model"] == "nomic-embed-text"
    resumed = (await operator.patch("/embeddings/model", json={"is_paused": False})).json()
    assert (resumed["texts"], resumed["done"], resumed["job_status"]) == (3, 0, "queued")
    assert await testing.drain(running_app.app) == {"succeeded": 1}
    shown = (await operator.get("/embeddings/model")).json()
    assert (shown["active"], shown["next"], shown["job_status"]) == (NEW, None, "succeeded")
    assert await found(ada) == ["R-1", "R-2", "R-3"]
    assert fake.requests[-1]["model"] == "ada"
    await add(ada, "R-4", "four")
    await testing.drain(running_app.app)
    assert await found(ada) == ["R-1", "R-2", "R-3", "R-4"]


async def test_a_change_is_canceled_and_a_rejected_text_does_not_switch(running_app, fake, ada, operator):
    fake_limit = "x" * (MAX_CHARS - 20)
    await add(ada, "R-1", "one")
    await testing.drain(running_app.app)
    long = await add(ada, "R-2", fake_limit + "y" * 40)
    await operator.post("/embeddings/model", json={"model": "ada"})
    counts = await testing.drain(running_app.app)
    assert counts["failed"] == 2, "the rule's own job, and the change"
    shown = (await operator.get("/embeddings/model")).json()
    assert (shown["active"], shown["texts"], shown["done"]) == (OLD, 2, 1)
    assert f"{NEW} rejected 1 texts" in shown["job_error"]
    await ada.delete(long)
    await operator.patch("/embeddings/model", json={"is_paused": False})
    await testing.drain(running_app.app)
    assert (await operator.get("/embeddings/model")).json()["active"] == NEW
    await operator.post("/embeddings/model", json={"model": OLD})
    canceled = (await operator.delete("/embeddings/model")).json()
    assert (canceled["active"], canceled["next"]) == (NEW, None)
    await testing.drain(running_app.app)
    assert (await operator.get("/embeddings/model")).json()["active"] == NEW


async def test_changes_that_make_no_sense_are_refused(running_app, fake, ada, operator):
    await add(ada, "R-1", "one")
    await testing.drain(running_app.app)
    for method, body, status in [
        ("post", {"model": "unheard-of"}, 422),
        ("post", {"model": "wide"}, 422),
        ("post", {"model": OLD}, 409),
        ("post", {"model": "ada", "texts_per_minute": 0}, 422),
        ("patch", {"is_paused": True}, 409),
        ("delete", None, 409),
    ]:
        answer = await operator.request(method, "/embeddings/model", json=body)
        assert answer.status_code == status, (method, body, answer.text)
    assert (await ada.post("/embeddings/model", json={"model": "ada"})).status_code == 403


def run(running_app, *arguments):
    env = {**os.environ, "POSTHOUSE_DATABASE_URL": running_app.settings.database_url}
    command = [sys.executable, "-m", "embeddings", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


async def test_the_command_starts_and_pauses_a_change(running_app, fake, ada):
    await add(ada, "R-1", "one")
    await testing.drain(running_app.app)
    assert "no change of the model is in progress" in run(running_app, "pause").stderr
    started = json.loads(run(running_app, "change", "ada", "--texts-per-minute", "60").stdout)
    assert (started["active"], started["next"], started["texts_per_minute"]) == (OLD, NEW, 60)
    assert json.loads(run(running_app, "pause").stdout)["is_paused"]
    refused = run(running_app, "change", "unheard-of")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)


def test_a_rate_is_kept_in_batches_of_a_few_seconds():
    assert (batch_size(None), delay(None, 50, 0.1)) == (50, 0.0)
    assert (batch_size(60), delay(60, 5, 1.0)) == (5, 4.0)
    assert (batch_size(5), delay(5, 1, 0.0)) == (1, 12.0)
    assert (batch_size(100_000), delay(6000, 50, 2.0)) == (50, 0.0)
