"""posthouse demo embeddings: embed thousands of rules, 30 % of them copies, and search for similar ones."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from embeddings.db import Db, sql
from embeddings.handlers import BATCH
from embeddings.providers import configured_model, embed
from embeddings.sample_rules import SampleRules
from embeddings.store import near_rule
from posthouse.demo import Stage

SIZE = 2000
COPIES = 0.3
SAMPLE = 4
"""One in this many texts is embedded without a queue, and as many rules are inserted one by one."""
NEAREST = 3


async def demo(stage: Stage) -> dict[str, Any]:
    size = stage.size or SIZE
    run = uuid4().hex[:8]
    book = SampleRules()
    async with await AsyncConnection.connect(stage.database_url, autocommit=True) as db:
        stage.say("preparing the model")
        await _embed(stage, db, [book.rules(1)], run, "first")
        stage.say("calling the model directly, for comparison")
        direct = await _direct(book.rules(max(6, size // SAMPLE)))
        stage.say("embedding rules that are inserted one by one")
        singles = [book.rules(1) for _ in range(max(6, size // SAMPLE))]
        await _embed(stage, db, singles, run, "singly")
        stage.say(f"embedding {size} rules that are inserted at once")
        written = await _embed(stage, db, [book.rules(size, COPIES)], run, "at once")
        singly = await _found(db, "demo_pace", f"{run} singly")
        bulk = await _found(db, "demo_pace", f"{run} at once")
        near = await _nearest(stage, db, f"{run} at once")
    return {
        "rules": size,
        "computed": bulk["computed"],
        "reused": bulk["jobs"] - bulk["computed"],
        "computed_share": round(bulk["computed"] / bulk["jobs"], 3),
        "written_in_seconds": round(written, 2),
        "model_alone_per_second": round(direct, 1),
        "inserted_singly_per_second": round(singly["per_second"], 1),
        "inserted_at_once_per_second": round(bulk["per_second"], 1),
        "inserted_singly_ratio": round(singly["per_second"] / direct, 2),
        "inserted_at_once_ratio": round(bulk["per_second"] / direct, 2),
        "nearest": near,
    }


async def _direct(rules: dict[str, list[str]]) -> float:
    """Return how many texts per second the model embeds in a loop without a queue and a database."""
    columns = zip(rules["titles"], rules["guidances"], rules["rationales"], strict=True)
    texts = [" ".join(each) for each in columns]
    model = configured_model()
    await embed(model, texts[:1])  # load the model
    started = time.perf_counter()
    for start in range(0, len(texts), BATCH):
        await embed(model, texts[start : start + BATCH])
    return len(texts) / (time.perf_counter() - started)


async def _embed(stage: Stage, db: Db, imports: list[dict[str, list[str]]], run: str, how: str) -> float:
    """Insert rules, each import in one transaction, and wait for the jobs that the trigger created.

    Return the duration of the inserts.
    """
    settings = {"import": f"{run} {how}"}
    started = time.perf_counter()
    for rules in imports:
        async with db.transaction():
            await db.execute(sql("demo_settings"), settings)
            await db.execute(sql("demo_rules"), rules | {"tenant": f"demo-{run}"})
    took = time.perf_counter() - started
    await stage.follow(settings["import"])
    return took


async def _nearest(stage: Stage, db: Db, name: str) -> list[str]:
    chosen = await _found(db, "demo_chosen", name)
    async with db.transaction():
        near = await near_rule(db, chosen["id"], NEAREST)
    stage.say(f"most similar to: {chosen['guidance']} {chosen['rationale']}")
    found = [f"{one['similarity']:.3f} {one['guidance']} {one['rationale']}" for one in near]
    for line in found:
        stage.say(f"  {line}")
    return found


async def _found(db: Db, name: str, run: str) -> dict[str, Any]:
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(sql(name), {"import": run})
        found = await cursor.fetchone()
    assert found is not None
    return found
