"""posthouse demo embeddings: embed thousands of rules, 30 % of them copies, and search for similar ones.

The rates compare four ways to embed texts: the model in batches, without a queue and a database; rules that
are inserted at once, and one by one; and what a service without a queue does with single rules, which is to
insert a rule, call the model for its text and store the vector, one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection

from embeddings.db import Db, fetch_one, sql
from embeddings.handlers import BATCH
from embeddings.packing import pack, send_packed
from embeddings.providers import configured_model, embed
from embeddings.sample_rules import SampleRules
from embeddings.store import near_rule
from posthouse.demo import Stage

Columns = dict[str, list[str]]

TENANT = "demo"
"""Holds only the rules of the latest demo."""
SIZE = 2000
COPIES = 0.3
SAMPLE = 4
"""One in this many texts is embedded without a queue, and as many rules are inserted one by one."""
TURN = 250
"""Rules per turn. The ways of embedding take turns, so that other load on the machine affects all alike."""
NEAREST = 3


@dataclass
class Pace:
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
    book, run = SampleRules(), uuid4().hex[:8]
    direct, looped, singly, bulk = Pace(), Pace(), Pace(), Pace()
    async with await AsyncConnection.connect(stage.database_url, autocommit=True) as db:
        stage.say("deleting the rules of the previous demo, and preparing the model")
        await db.execute(sql("demo_clear"), {"tenant": TENANT})
        await _embed(stage, db, [book.rules(1)], f"{run} first", Pace())
        stage.say(f"embedding {size} rules inserted at once, others one by one, and others without a queue")
        written = 0.0
        for number, share in enumerate(turns(size)):
            sample = max(6, share // SAMPLE)
            await _call_model(book.rules(sample), direct)
            await _embed_in_a_loop(db, [book.rules(1) for _ in range(sample)], looped)
            await _embed(stage, db, [book.rules(1) for _ in range(sample)], f"{run} singly {number}", singly)
            written += await _embed(stage, db, [book.rules(share, COPIES)], f"{run} at once {number}", bulk)
        near = await _nearest(stage, db, f"{run} at once 0")
    stage.link("Search the rules", "/apps/embeddings/?q=keep+passwords+out+of+logs")
    return {
        "rules": size,
        "computed": bulk.computed,
        "reused": bulk.jobs - bulk.computed,
        "computed_share": round(bulk.computed / bulk.jobs, 3),
        "written_in_seconds": round(written, 2),
        "model_alone_per_second": round(direct.per_second, 1),
        "inserted_singly_per_second": round(singly.per_second, 1),
        "inserted_at_once_per_second": round(bulk.per_second, 1),
        "inserted_singly_ratio": round(singly.per_second / direct.per_second, 2),
        "inserted_at_once_ratio": round(bulk.per_second / direct.per_second, 2),
        "loop_without_queue_per_second": round(looped.per_second, 1),
        "inserted_singly_to_loop_ratio": round(singly.per_second / looped.per_second, 2),
        "nearest": near,
    }


def turns(size: int) -> list[int]:
    """Divide the rules into turns of about the same size."""
    count = max(1, round(size / TURN))
    return [size * (number + 1) // count - size * number // count for number in range(count)]


async def _call_model(rules: Columns, pace: Pace) -> None:
    """Embed texts in a loop without a queue and a database."""
    texts = _texts(rules)
    model = configured_model()
    await embed(model, texts[:1])  # load the model
    started = time.perf_counter()
    for start in range(0, len(texts), BATCH):
        await embed(model, texts[start : start + BATCH])
    pace.add(len(texts), len(texts), time.perf_counter() - started)


async def _embed_in_a_loop(db: Db, imports: Sequence[Columns], pace: Pace) -> None:
    """Insert rules and store their vectors without a queue, one rule after the other."""
    model = configured_model()
    await send_packed(db)
    await db.execute(sql("demo_loop_create"))
    started = time.perf_counter()
    for rules in imports:
        await db.execute(sql("demo_loop_insert"), rules | {"tenant": TENANT})
        (vector,) = await embed(model, _texts(rules))
        await db.execute(sql("demo_loop_store"), {"rule_id": rules["rule_ids"][0], "vector": pack(vector)})
    pace.add(len(imports), len(imports), time.perf_counter() - started)


def _texts(rules: Columns) -> list[str]:
    columns = zip(rules["titles"], rules["guidances"], rules["rationales"], strict=True)
    return [" ".join(each) for each in columns]


async def _embed(stage: Stage, db: Db, imports: Sequence[Columns], name: str, pace: Pace) -> float:
    """Insert rules, each import in one transaction, and wait for the jobs that the trigger created.

    Return the duration of the inserts.
    """
    await db.execute(sql("demo_settings"), {"import": name})
    started = time.perf_counter()
    for rules in imports:
        await db.execute(sql("demo_rules"), rules | {"tenant": TENANT})
    took = time.perf_counter() - started
    await stage.follow(name)
    found = await fetch_one(db, "demo_pace", {"import": name})
    assert found is not None
    pace.add(**found)
    return took


async def _nearest(stage: Stage, db: Db, name: str) -> list[str]:
    chosen = await fetch_one(db, "demo_chosen", {"import": name})
    assert chosen is not None
    async with db.transaction():
        near = await near_rule(db, chosen["id"], NEAREST)
    stage.say(f"most similar to: {chosen['guidance']} {chosen['rationale']}")
    lines = [f"{one['similarity']:.3f} {one['guidance']} {one['rationale']}" for one in near]
    for line in lines:
        stage.say(f"  {line}")
    return lines
