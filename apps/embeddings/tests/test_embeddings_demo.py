"""`posthouse demo embeddings`, small."""

import json
import os

import pytest

from embeddings.demo import split_into_rounds
from support import forkserver


@pytest.mark.parametrize(("size", "shares"), [(20, [20]), (6000, [2000] * 3), (4001, [2000, 2001])])
def test_the_ways_of_embedding_take_turns(size, shares):
    assert split_into_rounds(size) == shares


@pytest.mark.soak
def test_the_demo_computes_seven_in_ten_and_finds_what_is_near(database, tmp_path):
    env = {**os.environ, "POSTHOUSE_DATABASE_URL": database, "XDG_DATA_HOME": str(tmp_path / "data")}
    done = forkserver.run_posthouse(
        ["demo", "embeddings", "--size", "20", "--json"], folder=tmp_path, env=env, seconds=100
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rules"], found["computed"], found["reused"]) == (20, 14, 6)
    assert found["inserted_at_once_to_loop_in_batches"] > 0
    assert found["inserted_singly_to_loop_one_by_one"] > 0
    assert found["inserted_singly_to_loop_in_batches"] > 0
    assert len(found["nearest"]) == 3
    assert "most similar to" in done.stderr
    assert "embeddings.embed: 10 of 10" in done.stderr
