"""Where the data goes if the server's user cannot enter the data directory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posthouse.storage.embedded import attach_server, layout
from posthouse.storage.embedded.layout import Layout

FILTER = Path(__file__).parents[3] / "tools" / "without-user-namespaces"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")

# Prints where the data is and what a table holds that the first start creates.
START = """
import sys
from pathlib import Path
import psycopg
from posthouse.storage.embedded import attach_server
with attach_server(Path(sys.argv[1]), settings={"fsync": "off"}) as server:
    with psycopg.connect(server.url) as connection:
        connection.execute("create table if not exists starts (at int)")
        connection.execute("insert into starts select count(*) from starts")
        print(server.data_dir, connection.execute("select count(*) from starts").fetchone()[0])
"""


@pytest.fixture
def closed_dir(data_dir):
    """A folder that only root can enter, as /root is."""
    data_dir.chmod(0o700)
    yield data_dir / "inside"
    moved = Layout(data_dir / "inside").moved_file
    if moved.exists():
        shutil.rmtree(moved.read_text().strip())


def start_without_namespaces(data_dir):
    return subprocess.run(
        [sys.executable, FILTER, sys.executable, "-c", START, data_dir],
        capture_output=True,
        text=True,
        check=True,
    )


def test_without_user_namespaces_root_finds_a_folder_that_works_and_later_starts_find_it_again(closed_dir):
    first = start_without_namespaces(closed_dir)
    folder, starts = first.stdout.split()
    assert starts == "1"
    assert Path(folder).parent in layout.SHARED
    assert f"stores its data in {folder}" in first.stderr
    assert closed_dir.parent.stat().st_mode & 0o777 == 0o700
    with attach_server(closed_dir, settings={"fsync": "off"}) as server:
        assert str(server.data_dir) == folder, "also with user namespaces"
    second = start_without_namespaces(closed_dir)
    assert second.stdout.split() == [folder, "2"]
    assert second.stderr == ""
    shutil.rmtree(closed_dir)
    assert start_without_namespaces(closed_dir).stdout.split() == [folder, "3"]


def test_a_folder_that_every_user_can_enter_is_used_as_it_is(data_dir):
    data_dir.chmod(0o755)
    started = start_without_namespaces(data_dir / "inside")
    assert started.stdout.split()[0] == str(data_dir / "inside")
    assert started.stderr == ""


def test_a_shared_folder_that_others_can_change_is_not_used(closed_dir, data_dir, monkeypatch):
    theirs = data_dir / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    monkeypatch.setattr(layout, "SHARED", (theirs / "embedded",))
    monkeypatch.setattr(layout.accounts, "can_enter_parent", lambda _layout: False)
    assert layout.locate(closed_dir).root == closed_dir
