"""A short run of the chaos driver: everything goes wrong for some seconds, and the history is clean."""

import random

import chaos
import pytest


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "workers", ["direct", *(pytest.param(name, marks=pytest.mark.soak) for name in ("supervised", "remote"))]
)
async def test_invariants_1_to_8_10_and_17_hold_in_chaos(database, workers):
    seed = random.randrange(10**6)
    record, problems = await chaos.run(database, seconds=4, seed=seed, workers=workers)
    assert problems == [], f"with the seed {seed}"
    assert len(record.acknowledged) > 100
    assert sum(record.faults.values()) >= 5


async def test_the_check_finds_what_is_wrong(db):
    """A check that can only be silent proves nothing: a doctored history is found out."""
    db.execute("create table effects (job_id uuid, attempt integer)")
    ids = [
        db.execute("select posthouse.enqueue('errand', '{\"fate\": \"pay\"}')").fetchone()[0] for _ in "abc"
    ]
    db.execute(
        "select posthouse.claim("
        "gen_random_uuid(), gen_random_uuid(), '{default}', '{errand}', 2, interval '1 s')"
    )
    db.execute("select posthouse.succeed(array_agg(id), array_agg(token), null) from posthouse.running")
    db.execute("update posthouse.history set attempt_count = 2, max_attempts = 8 where id = %s", (ids[0],))
    db.execute("insert into posthouse.history select * from posthouse.history where id = %s", (ids[1],))
    record = chaos.Record(acknowledged={ids[0], ids[2]}, cancels={ids[0]: "canceling"})
    found = {problem.split(":")[0] for problem in chaos.violations(db, record)}
    assert found >= {f"invariant {number}" for number in (1, 2, 4, 5, 6, 8, 17)}
