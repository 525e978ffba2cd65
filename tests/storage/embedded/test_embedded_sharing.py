"""Many processes, one server."""

import os

import psycopg
import pytest

from posthouse.storage.embedded.process import is_alive

made_before = pytest.mark.usefixtures("made_before")
STARTED = "select pg_postmaster_start_time()"


@made_before
def test_a_second_process_attaches_to_the_same_server(start, attach):
    server = start()
    other = attach()
    assert other.url() == server.url


def test_five_processes_racing_on_an_empty_folder_get_one_server(attach, layout):
    processes = [attach() for _ in range(5)]
    urls = {process.url() for process in processes}
    assert len(urls) == 1
    assert layout.log_file.read_text().count("starting PostgreSQL") == 1


@made_before
def test_the_server_stops_when_the_last_process_closes_and_not_before(start, attach, layout, query):
    server = start()
    other = attach()
    url = other.url()
    began = query(url, STARTED)
    server.close()
    assert query(url, STARTED) == began
    other.close()
    assert not is_alive(layout)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


@made_before
def test_two_handles_in_one_process_count_as_two(start, layout):
    first, second = start(), start()
    first.close()
    assert is_alive(layout)
    second.close()
    second.close()
    assert not is_alive(layout)


@made_before
def test_open_connections_do_not_hold_up_the_stop(start, layout):
    server = start()
    with psycopg.connect(server.url):
        server.close()
    assert not is_alive(layout)


@made_before
def test_a_server_can_be_left_running(start, layout):
    start(keep_running=True).close()
    assert is_alive(layout)
    start().close()
    assert not is_alive(layout)


FORK = """
import os, sys
from pathlib import Path
from posthouse.storage.embedded import attach_server
server = attach_server(Path(sys.argv[1]))
if os.fork() == 0:
    server.close()
    os._exit(0)
os.wait()
print(server.url, flush=True)
sys.stdin.readline()
"""


@made_before
def test_a_forked_child_cannot_close_its_parents_handle(data_dir, start, python, layout):
    parent = python(FORK, data_dir)
    parent.stdout.readline()
    start().close()
    assert is_alive(layout)
    parent.communicate("done\n")


@made_before
def test_the_server_is_in_a_session_of_its_own(start, layout):
    start()
    pid = int((layout.cluster / "postmaster.pid").read_text().split()[0])
    assert os.getsid(pid) != os.getsid(0)
    assert os.getpgid(pid) != os.getpgid(0)
