"""`posthouse demo photos`, small."""

import json
import os

import pytest

import posthouse
from photos.demo import reset_demo_folder
from support import forkserver


@pytest.mark.soak
def test_the_demo_drops_a_picture_and_finds_its_tags_also_beside_a_worker_of_the_product(database, tmp_path):
    env = {**os.environ, "POSTHOUSE_DATABASE_URL": database, "XDG_DATA_HOME": str(tmp_path / "data")}
    worker = forkserver.start_python(
        ["-m", "posthouse", "worker", "--app", "photos:app", "--commands"], folder=tmp_path, env=env
    )
    done = forkserver.run_posthouse(
        ["demo", "photos", "--size", "3", "--json"], folder=tmp_path, env=env, seconds=100
    )
    worker.terminate()
    worker.wait()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pictures"] == {"harbour": 10, "sakura": 9}
    assert {tag.partition(" ")[0] for tag in found["tags"]} >= {"blue", "beach"}
    assert found["visible_to_the_other_tenant"] == 0
    assert found["token_in_log_tails"] is False
    assert "[secret]" in found["log_tail"]
    assert found["next_nightly_sync"].keys() == {"harbour", "sakura"}


def test_the_demo_does_not_touch_an_existing_library(tmp_path):
    own = tmp_path / "harbour"
    own.mkdir()
    (own / "library.sqlite").write_text("years of pictures")
    with pytest.raises(posthouse.PosthouseError, match="PHOTOS_LIBRARY"):
        reset_demo_folder(own)
    assert (own / "library.sqlite").read_text() == "years of pictures"
    again = reset_demo_folder(reset_demo_folder(tmp_path / "sakura"))
    assert [path.name for path in again.iterdir()] == [".made-by-the-demo"]
