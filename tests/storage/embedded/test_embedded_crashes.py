"""The embedded Postgres recovers after any of its processes is killed."""

import shutil
import signal
import socket
import subprocess
from urllib.parse import urlsplit

import psutil
import pytest

from posthouse.errors import DatabaseUnavailable, EmbeddedUnavailable
from posthouse.storage.embedded import attach_server
from posthouse.storage.embedded.layout import Layout, load_state
from posthouse.storage.embedded.locks import attempts
from posthouse.storage.embedded.process import is_alive
from posthouse.storage.embedded.server import identify

made_before = pytest.mark.usefixtures("made_before")


def postmaster(layout):
    return psutil.Process(int((layout.cluster / "postmaster.pid").read_text().split()[0]))


def kill_server(layout):
    postmaster(layout).send_signal(signal.SIGKILL)
    for _ in attempts(30):
        if not is_alive(layout):
            return
    pytest.fail("the server's processes outlived their postmaster")


@made_before
def test_the_server_outlives_a_killed_owner_and_the_next_closer_stops_it(attach, start, layout, query):
    owner = attach()
    url = owner.url()
    owner.kill()
    assert query(url, "select 1") == 1
    server = start()
    assert server.url == url
    server.close()
    assert not is_alive(layout)


@made_before
def test_a_killed_postmaster_is_replaced_and_the_data_is_there(start, layout, query):
    url = start().url
    query(url, "create table kept as select 7 as value")
    kill_server(layout)
    assert query(start().url, "select value from kept") == 7


@made_before
def test_a_server_is_not_started_while_a_backend_of_the_dead_one_lives(start, layout, query):
    url = start().url
    query(url, "create table kept as select 7 as value")
    main = postmaster(layout)
    backend = main.children()[0]
    backend.suspend()
    main.kill()
    with pytest.raises(DatabaseUnavailable, match="did not answer"):
        start(timeout=0.2)
    backend.resume()
    assert query(start().url, "select value from kept") == 7


@made_before
def test_a_stale_process_id_that_another_process_has_now(start, layout, query):
    server = start()
    query(server.url, "create table kept as select 7 as value")
    port = urlsplit(server.url).port
    kill_server(layout)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        for path in (
            layout.cluster / "postmaster.pid",
            layout.sockets / f".s.PGSQL.{port}.lock",
        ):
            _, *rest = path.read_text().splitlines()
            path.write_text("\n".join([str(stranger.pid), *rest, ""]))
        again = start()
        assert query(again.url, "select value from kept") == 7
        again.close()
        server.close()
        assert not is_alive(layout)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_start_that_was_killed_half_way_is_begun_anew(start, layout, query):
    layout.staging_cluster.mkdir()
    (layout.staging_cluster / "PG_VERSION").write_text("18\n")
    layout.password_file.write_text("old")
    assert query(start().url, "select 1") == 1


@made_before
def test_a_port_that_was_taken_meanwhile_is_replaced(start, query):
    server = start()
    server.close()
    with socket.create_server(("127.0.0.1", urlsplit(server.url).port)):
        again = start()
        assert again.url != server.url
        assert query(again.url, "select 1") == 1


@made_before
def test_a_copied_folder_gets_a_server_of_its_own(start, data_dir, query):
    server = start()
    query(server.url, "create table original as select 1 as value")
    query(server.url, "checkpoint")
    copy = data_dir / "copy"
    shutil.copytree(data_dir, copy, ignore=shutil.ignore_patterns("copy", "socket"))
    assert identify(Layout(copy)) is None
    with attach_server(copy, settings={"fsync": "off"}) as other:
        assert other.url != server.url
        assert query(other.url, "show data_directory") == str(copy / "cluster")


@made_before
def test_a_server_that_cannot_start_says_why(start):
    with pytest.raises(DatabaseUnavailable) as caught:
        start(settings={"shared_buffers": "nonsense"})
    assert 'invalid value for parameter "shared_buffers"' in str(caught.value)
    assert "POSTHOUSE_DATABASE_URL" in str(caught.value)


@made_before
def test_another_major_version_is_refused(start, layout):
    start().close()
    (layout.cluster / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedUnavailable, match="created by Postgres 16"):
        start()


@made_before
def test_a_lost_state_file_is_named(start, layout):
    start().close()
    layout.state_file.unlink()
    with pytest.raises(EmbeddedUnavailable, match=r"state\.json is missing"):
        start()
    layout.state_file.write_text("not json")
    with pytest.raises(EmbeddedUnavailable, match=r"cannot read .*state\.json"):
        start()


@made_before
def test_a_changed_password_is_not_waited_for_forever(start, layout, query):
    server = start()
    known = load_state(layout.state_file)
    query(server.admin_url_for(), "alter role posthouse_admin password 'changed'")
    with pytest.raises(DatabaseUnavailable, match="password authentication failed"):
        start(timeout=0.2)
    url = server.admin_url_for().replace(known.admin_password, "changed")
    query(url, f"alter role posthouse_admin password '{known.admin_password}'")


@made_before
def test_a_hanging_starter_is_named(start, layout, python):
    hold = "import sys,fcntl; f=open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); input()"
    start().close()
    holder = python(hold, layout.gate_lock)
    holder.stdout.readline()
    with pytest.raises(DatabaseUnavailable, match=r"gate\.lock"):
        start(timeout=0.2)
    holder.communicate("\n")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedUnavailable, match="cannot use"):
        attach_server(tmp_path / "file" / "inside")
