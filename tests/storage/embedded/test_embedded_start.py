"""A first start: what the server is, and what it says on the way."""

from urllib.parse import urlsplit

import psycopg
import pytest

from posthouse.errors import ConfigurationError
from posthouse.storage.embedded import attach_server

made_before = pytest.mark.usefixtures("made_before")


def test_a_fresh_folder_becomes_a_server_that_answers(start, data_dir, query):
    server = start()
    assert query(server.url, "select current_database()") == "posthouse"
    assert query(server.url_for("postgres"), "select current_database()") == "postgres"
    assert server.server_version.startswith("18.")
    assert server.data_dir == data_dir
    assert "ready to accept connections" in server.log_file.read_text()


def test_progress_is_reported_and_the_data_and_port_outlast_a_restart(start, query):
    steps = []
    server = start(report=steps.append)
    query(server.url, "create table kept as select 7 as value")
    server.close()
    again = start(report=steps.append)
    start(report=steps.append)
    assert query(again.url, "select value from kept") == 7
    assert again.url == server.url
    assert steps == ["initialising", "starting", "ready", "starting", "ready", "ready"]


def test_the_defaults_are_durable_and_tuned(data_dir):
    with attach_server(data_dir) as server, psycopg.connect(server.url) as connection:
        shown = dict(connection.execute("select name, setting from pg_settings").fetchall())
    assert shown["fsync"] == shown["synchronous_commit"] == shown["full_page_writes"] == "on"
    assert 128 <= int(shown["shared_buffers"]) * 8192 // 2**20 <= 512
    assert (shown["max_connections"], shown["max_wal_size"]) == ("200", "2048")
    assert (shown["checkpoint_timeout"], shown["autovacuum_naptime"]) == ("900", "15")
    assert (shown["jit"], shown["wal_compression"]) == ("off", "off")
    assert (shown["random_page_cost"], shown["TimeZone"]) == ("1.1", "UTC")
    assert shown["server_encoding"] == "UTF8"


@made_before
def test_settings_override_the_defaults(start, query):
    server = start(settings={"work_mem": "7MB", "application_name": "it's a \\ test"})
    assert query(server.url, "show work_mem") == "7MB"
    assert query(server.url, "show fsync") == "off"
    assert query(server.url, "show application_name") == "it's a \\ test"


@made_before
def test_alter_system_outlasts_a_restart(start, query):
    server = start()
    query(server.admin_url_for(), "alter system set work_mem = '9MB'")
    server.close()
    assert query(start().url, "show work_mem") == "9MB"


@pytest.mark.parametrize("settings", [{"port": "1"}, {"no name": "x"}, {"work_mem": "1\n2"}])
def test_settings_that_would_break_the_server_are_refused(start, settings):
    with pytest.raises(ConfigurationError):
        start(settings=settings)


def test_only_the_password_opens_the_server(start, layout):
    parts = urlsplit(start().url)
    wrong = f"postgresql://posthouse:wrong@127.0.0.1:{parts.port}/posthouse"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)
    assert layout.state_file.stat().st_mode & 0o777 == 0o600
    assert layout.root.stat().st_mode & 0o066 == 0
    assert not layout.password_file.exists()


@made_before
def test_the_password_stays_out_of_the_repr(start):
    server = start()
    assert urlsplit(server.url).password not in repr(server)


@made_before
def test_vectors_can_be_searched(start, query):
    url = start().admin_url_for()
    query(url, "create extension vector")
    assert query(url, "select '[1,2]'::vector <-> '[4,6]'::vector") == 5


@made_before
def test_the_unix_socket_works_too(start, query):
    server = start()
    parts = urlsplit(server.url)
    by_socket = (
        f"postgresql://{parts.username}:{parts.password}@/posthouse"
        f"?host={server.socket_dir}&port={parts.port}"
    )
    assert query(by_socket, "select inet_server_addr() is null")


def test_a_long_path_goes_without_a_unix_socket(data_dir, query):
    data_dir.chmod(0o711)
    deep = data_dir / ("d" * 100)
    with attach_server(deep, settings={"fsync": "off"}) as server:
        assert server.socket_dir is None
        assert query(server.url, "show unix_socket_directories") == ""
