"""The parts that need no server."""

import subprocess

import pytest

from posthouse.errors import EmbeddedUnavailable
from posthouse.storage.embedded import find_binaries, process
from posthouse.storage.embedded.layout import MAX_SOCKET_PATH_BYTES, Layout

GIGABYTE = 2**30


@pytest.mark.parametrize(
    ("memory", "buffers"),
    [(GIGABYTE // 4, 128), (GIGABYTE, 256), (64 * GIGABYTE, 512)],
)
def test_shared_buffers_are_a_quarter_of_the_memory_within_bounds(memory, buffers):
    assert process.shared_buffers_megabytes(memory) == buffers


def test_a_containers_limit_counts_where_it_is_lower(tmp_path, monkeypatch):
    limit, unlimited, absent = (tmp_path / name for name in ("limit", "unlimited", "absent"))
    limit.write_text("268435456\n")
    unlimited.write_text("max\n")
    monkeypatch.setattr(process, "CONTAINER_LIMITS", (absent, unlimited, limit))
    assert process.memory_bytes() == 268435456


@pytest.mark.parametrize("name", ["with,comma", 'with"quote', "l" * MAX_SOCKET_PATH_BYTES])
def test_paths_that_cannot_hold_a_socket_have_none(tmp_path, name):
    assert Layout(tmp_path / name).socket_dir is None


def test_a_large_log_is_put_aside_and_the_one_before_dropped(data_dir, monkeypatch):
    layout = Layout(data_dir)
    monkeypatch.setattr(process, "MAX_LOG_BYTES", 3)
    for text in ("first", "second", "big"):
        layout.log_file.write_text(text)
        process._rotate_log(layout)
    assert layout.previous_log_file.read_text() == "second"
    assert process.log_tail(layout) == "big"


class AccountWithout:
    """Fails initdb as a system without some locales does."""

    def __init__(self, *missing):
        self.missing = missing
        self.tried = []

    def own(self, path):
        pass

    def run(self, command, **_options):
        locale = next(word for word in command if word.startswith("--locale=")).partition("=")[2]
        self.tried.append(locale)
        error = f'initdb: error: invalid locale name "{locale}"' if locale in self.missing else ""
        return subprocess.CompletedProcess(command, bool(error), "", error)


def test_a_system_without_the_locale_gets_the_plain_one(data_dir):
    account = AccountWithout("C.UTF-8")
    process.create_cluster(Layout(data_dir), account, find_binaries(), "secret", durable=True)
    assert account.tried == ["C.UTF-8", "C"]


def test_a_failing_initdb_is_quoted(data_dir):
    account = AccountWithout("C.UTF-8", "C")
    with pytest.raises(EmbeddedUnavailable, match='invalid locale name "C"'):
        process.create_cluster(Layout(data_dir), account, find_binaries(), "secret", durable=True)
    assert not Layout(data_dir).cluster.exists()
