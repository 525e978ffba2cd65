"""`posthouse demo photos`, small."""

import json
import os

import stable


def test_the_demo_drops_a_picture_and_finds_its_tags(database, tmp_path):
    env = {**os.environ, "POSTHOUSE_DATABASE_URL": database, "XDG_DATA_HOME": str(tmp_path)}
    done = stable.posthouse(
        ["demo", "photos", "--size", "3", "--json"], folder=tmp_path, env=env, seconds=100
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pictures"] == {"harbour": 10, "sakura": 9}
    assert {tag.partition(" ")[0] for tag in found["tags"]} >= {"blue", "beach"}
    assert found["seen_by_the_other_tenant"] == 0
    assert found["token_in_log_tails"] is False
    assert "[secret]" in found["log_tail"]
    assert found["next_night"].keys() == {"harbour", "sakura"}
