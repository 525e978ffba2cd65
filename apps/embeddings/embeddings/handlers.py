"""Jobs of the application: each stores the vector of one rule. A batch of 50 jobs is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import posthouse
from embeddings import store
from embeddings.computing import Computing
from embeddings.providers import Rejected, provider
from embeddings.store import Found, Text, Wish

app = posthouse.App(schema=Path(__file__).with_name("schema.sql"), routes="embeddings.routes")

BATCH = 50
RETRY = posthouse.Retry.exponential("60s", cap="5m", jitter=0)
"""One minute after the first attempt, two after the second, at most five."""
TIMEOUT = "5m"
VERSION = version("posthouse")
MOMENT = "200ms"
"""Snooze while another batch computes the same text."""


@dataclass
class Asked:
    """The payload, as created by embeddings.request in the database."""

    rule_id: UUID
    input_text: str
    text_hash: str
    embedding_model: str | None = None


@app.job(
    "embeddings.embed",
    queue="embeddings",
    batch=BATCH,
    batches=2,  # while one computes, the other reads and writes
    takes=Asked,
    retry=RETRY,
    max_attempts=3,
    timeout=TIMEOUT,
    fail_on=[Rejected],
)
async def embed(jobs: list[posthouse.Job]) -> list[Any]:
    """Compute and store the vectors of a batch of rules."""
    return await _embedded(jobs)


@app.job(
    "embeddings.embed_one",
    queue="embeddings",
    retry=RETRY,
    max_attempts=3,
    timeout=TIMEOUT,
    fail_on=[Rejected],
    limits=[posthouse.Limit(running=1)],
)
async def embed_one(
    job: posthouse.Job, rule_id: UUID, input_text: str, text_hash: str, embedding_model: str | None = None
) -> Any:
    """Compute and store the vector of one rule; for comparison with batches."""
    del rule_id, input_text, text_hash, embedding_model  # declared for validation only
    (answer,) = await _embedded([job])
    if isinstance(answer, Exception):
        raise answer
    return answer


async def _embedded(jobs: Sequence[posthouse.Job]) -> list[Any]:
    """Run the batch in one transaction.

    Its advisory locks keep other workers from computing the same texts, and are released when it ends.
    """
    wishes = [_wish(job) for job in jobs]
    async with jobs[0].transaction() as db:
        taken = await store.take(db, list({wish.text for wish in wishes}))
        found = await store.find(db, wishes)
        computing = Computing(provider())
        vectors = await computing.vectors(_missing(wishes, found, taken))
        await store.keep(db, vectors)
        attached = await store.attach(db, wishes)
    answers = Answers(computing, taken, attached)
    return [answers.to(wish, known) for wish, known in zip(wishes, found, strict=True)]


def _wish(job: posthouse.Job) -> Wish:
    payload = job.payload
    model = payload.get("embedding_model") or provider().model
    return Wish(
        Text(job.tenant, model, payload["text_hash"]), payload["input_text"], UUID(payload["rule_id"])
    )


def _missing(wishes: Sequence[Wish], found: Sequence[Found], taken: set[Text]) -> dict[Text, str]:
    """Return the texts to compute, each once."""
    return {
        wish.text: wish.input_text
        for wish, known in zip(wishes, found, strict=True)
        if known.is_current and not known.has_vector and wish.text in taken
    }


class Answers:
    """Outcomes of the jobs of a batch."""

    def __init__(self, computing: Computing, taken: set[Text], attached: dict[Text, int]) -> None:
        self._computing = computing
        self._taken = taken
        self._attached = attached
        self._told: set[Text] = set()

    def to(self, wish: Wish, known: Found) -> Any:
        if not known.rule_exists:
            return posthouse.Cancel("the rule was deleted")
        if not known.is_current:
            return posthouse.Cancel("the text of the rule has changed; another job embeds the new text")
        if wish.text in self._computing.errors:
            return self._computing.errors[wish.text]
        if not known.has_vector and wish.text not in self._taken:
            return posthouse.Snooze(MOMENT)
        if wish.text not in self._attached:
            return posthouse.Cancel("the rule was changed or deleted in the meantime")
        return self._success(wish.text, reused=known.has_vector or wish.text in self._told)

    def _success(self, text: Text, *, reused: bool) -> dict[str, Any]:
        self._told.add(text)
        return {
            "embedding_model": text.model,
            "embedding_dimensions": self._attached[text],
            "reused": reused,
            "worker_version": VERSION,
            "processing_time_ms": 0.0 if reused else self._computing.milliseconds_each,
        }
