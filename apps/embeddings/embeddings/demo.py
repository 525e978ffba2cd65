"""posthouse demo embeddings: embed thousands of rules, 30 % of them copies, and search for similar ones."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from embeddings.rulebook import Rulebook
from embeddings.search import near_rule
from embeddings.store import Db, statement
from posthouse.demo import Stage

SIZE = 2000
COPIES = 0.3
ALONE = 10
"""One in this many rules is first embedded on its own, for comparison."""
NEAREST = 3


async def demo(stage: Stage) -> dict[str, Any]:
    size = stage.size or SIZE
    run = uuid4().hex[:8]
    book = Rulebook()
    async with await AsyncConnection.connect(stage.database_url, autocommit=True) as db:
        stage.say("preparing the model")
        await _embed(stage, db, book.rules(1), run, "first")
        stage.say("embedding some rules one by one, for comparison")
        alone = book.rules(max(6, size // ALONE))
        await _embed(stage, db, alone, run, "singly")
        stage.say(f"embedding {size} rules in batches")
        written = await _embed(stage, db, book.rules(size, COPIES), run, "batches")
        singly = await _found(db, "demo_pace", f"{run} singly")
        batches = await _found(db, "demo_pace", f"{run} batches")
        near = await _nearest(stage, db, f"{run} batches")
    return {
        "rules": size,
        "computed": batches["computed"],
        "reused": batches["jobs"] - batches["computed"],
        "computed_share": round(batches["computed"] / batches["jobs"], 3),
        "written_in_seconds": round(written, 2),
        "one_by_one_per_second": round(singly["per_second"], 1),
        "in_batches_per_second": round(batches["per_second"], 1),
        "times_faster": round(batches["per_second"] / singly["per_second"], 1),
        "nearest": near,
    }


async def _embed(stage: Stage, db: Db, rules: dict[str, list[str]], run: str, how: str) -> float:
    """Insert rules and wait for the jobs that the trigger created; return the duration of the insert."""
    settings = {"import": f"{run} {how}", "singly": "on" if how == "singly" else "off"}
    started = time.perf_counter()
    async with db.transaction():
        await db.execute(statement("demo_settings"), settings)
        await db.execute(statement("demo_rules"), rules | {"tenant": f"demo-{run}"})
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
        await cursor.execute(statement(name), {"import": run})
        found = await cursor.fetchone()
    assert found is not None
    return found
