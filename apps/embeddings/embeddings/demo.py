"""posthouse demo embeddings: embed thousands of rules, 30 % of them copies, and search for similar ones.

The rates compare rules that are inserted at once with a loop that calls the model in batches, and rules that
are inserted one by one with a loop that calls the model for one text at a time. Neither loop has a queue or a
database. A rate is of rules with distinct texts, as those of the loops; the copies follow, and no rate counts
them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from psycopg import AsyncConnection

from embeddings.batch_embedder import TEXTS_PER_CALL
from embeddings.db import Db, fetch_one, sql
from embeddings.providers import configured_model, embed
from embeddings.sample_rules import SampleRules
from embeddings.store import near_rule
from posthouse.demo import Stage

Columns = dict[str, list[str]]

TENANT = "demo"
"""Holds only the rules of the latest demo."""
SIZE = 4000
COPIES = 0.3
SAMPLE_RATIO = 2
"""For each of this many rules inserted at once, one is inserted alone, and each loop embeds one text."""
RULES_PER_ROUND = 2000
"""Rules per turn. The ways of embedding take turns, so that other load on the machine affects all alike.

A turn takes a second or more, so that its first and last batches, during which a core idles, count little.
"""
NEAREST = 3
CANDIDATES = 100


class Inserts(NamedTuple):
    """A statement that inserts rules, and its parameters for each transaction."""

    statement: str
    parameters: Sequence[dict[str, Any]]


@dataclass
class Throughput:
    """How many texts were computed, in how many seconds."""

    jobs: int = 0
    computed: int = 0
    seconds: float = 0.0

    def add(self, jobs: int, computed: int, seconds: float) -> None:
        self.jobs += jobs
        self.computed += computed
        self.seconds += seconds

    @property
    def per_second(self) -> float:
        return self.computed / self.seconds


async def demo(stage: Stage) -> dict[str, Any]:
    size = stage.size or SIZE
    sample_rules, run = SampleRules(), uuid4().hex[:8]
    batched, alone, single, bulk, copied = (
        Throughput(),
        Throughput(),
        Throughput(),
        Throughput(),
        Throughput(),
    )
    async with await AsyncConnection.connect(stage.database_url, autocommit=True) as db:
        stage.say("deleting the rules of the previous demo, and preparing the model")
        await db.execute(sql("demo_clear"), {"tenant": TENANT})
        await _embed(stage, db, _bulk_insert(sample_rules.rules(1)), f"{run} first", Throughput())
        await _call_model(sample_rules.rules(1), 1, Throughput())
        stage.say(f"embedding {size} rules inserted at once, others one by one, and others without a queue")
        written = 0.0
        for number, share in enumerate(split_into_rounds(size)):
            sample = max(6, share // SAMPLE_RATIO)
            await _call_model(sample_rules.rules(sample), TEXTS_PER_CALL, batched)
            await _call_model(sample_rules.rules(sample), 1, alone)
            await _embed(
                stage, db, _single_inserts(sample_rules.rules(sample)), f"{run} singly {number}", single
            )
            originals, copies = _split(sample_rules.rules(share, COPIES))
            written += await _embed(stage, db, _bulk_insert(originals), f"{run} at once {number}", bulk)
            if copies["titles"]:
                written += await _embed(stage, db, _bulk_insert(copies), f"{run} copies {number}", copied)
        similar_rules = await _find_nearest(stage, db, f"{run} at once 0")
    stage.link("Search the rules", "/apps/embeddings/?q=keep+passwords+out+of+logs")
    return {
        "rules": size,
        "computed": bulk.computed + copied.computed,
        "reused": bulk.jobs + copied.jobs - bulk.computed - copied.computed,
        "computed_share": round((bulk.computed + copied.computed) / (bulk.jobs + copied.jobs), 3),
        "written_in_seconds": round(written, 2),
        "loop_in_batches_per_second": round(batched.per_second, 1),
        "inserted_at_once_per_second": round(bulk.per_second, 1),
        "inserted_at_once_to_loop_in_batches": round(bulk.per_second / batched.per_second, 2),
        "loop_one_by_one_per_second": round(alone.per_second, 1),
        "inserted_singly_per_second": round(single.per_second, 1),
        "inserted_singly_to_loop_one_by_one": round(single.per_second / alone.per_second, 2),
        "inserted_singly_to_loop_in_batches": round(single.per_second / batched.per_second, 2),
        "nearest": similar_rules,
    }


def split_into_rounds(size: int) -> list[int]:
    """Divide the rules into turns of about the same size."""
    count = max(1, round(size / RULES_PER_ROUND))
    return [size * (number + 1) // count - size * number // count for number in range(count)]


def _split(rules: Columns) -> tuple[Columns, Columns]:
    """Return the rules with distinct texts, and the copies of them."""
    texts = list(zip(rules["titles"], rules["guidances"], rules["rationales"], strict=True))
    firsts = {texts.index(text) for text in texts}
    return (
        {name: [one for n, one in enumerate(column) if n in firsts] for name, column in rules.items()},
        {name: [one for n, one in enumerate(column) if n not in firsts] for name, column in rules.items()},
    )


async def _call_model(rules: Columns, at_once: int, throughput: Throughput) -> None:
    """Embed texts in a loop without a queue and a database, ``at_once`` texts per call of the model."""
    columns = zip(rules["titles"], rules["guidances"], rules["rationales"], strict=True)
    texts = [" ".join(each) for each in columns]
    model = configured_model()
    started = time.perf_counter()
    for start in range(0, len(texts), at_once):
        await embed(model, texts[start : start + at_once])
    throughput.add(len(texts), len(texts), time.perf_counter() - started)


def _bulk_insert(rules: Columns) -> Inserts:
    return Inserts("demo_rules", [dict(rules)])


def _single_inserts(rules: Columns) -> Inserts:
    names = ("rule_id", "title", "guidance", "rationale", "priority")
    return Inserts(
        "demo_rule", [dict(zip(names, row, strict=True)) for row in zip(*rules.values(), strict=True)]
    )


async def _embed(stage: Stage, db: Db, inserts: Inserts, name: str, throughput: Throughput) -> float:
    """Insert rules, and wait for the jobs that the trigger created. Return the duration of the inserts."""
    await db.execute(sql("demo_settings"), {"import": name})
    started = time.perf_counter()
    for parameters in inserts.parameters:
        await db.execute(sql(inserts.statement), parameters | {"tenant": TENANT})
    elapsed = time.perf_counter() - started
    await stage.follow(name)
    # Single inserts arrive during the run, and the first batch waits for its jobs: that time counts.
    from_insert = len(inserts.parameters) > 1
    found = await fetch_one(db, "demo_pace", {"import": name, "from_insert": from_insert})
    assert found is not None
    throughput.add(**found)
    return elapsed


async def _find_nearest(stage: Stage, db: Db, name: str) -> list[str]:
    chosen = await fetch_one(db, "demo_chosen", {"import": name})
    assert chosen is not None
    async with db.transaction():
        similar_rules = await near_rule(db, chosen["id"], CANDIDATES)
    text = f"{chosen['guidance']} {chosen['rationale']}"
    stage.say(f"most similar to: {text}")
    # Many rules differ in their titles only: the most similar one of each other text is shown.
    similar = {f"{one['guidance']} {one['rationale']}": one["similarity"] for one in reversed(similar_rules)}
    similar.pop(text, None)
    lines = [f"{similarity:.3f} {other}" for other, similarity in list(similar.items())[::-1][:NEAREST]]
    for line in lines:
        stage.say(f"  {line}")
    return lines
