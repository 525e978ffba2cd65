"""The server's processes: starting them, and knowing whether any is alive."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from posthouse.storage.embedded import tuning
from posthouse.storage.embedded.locks import FileLock, is_held
from posthouse.storage.embedded.state import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posthouse.storage.embedded.accounts import Account
    from posthouse.storage.embedded.binaries import Binaries
    from posthouse.storage.embedded.layout import Layout

LARGEST_LOG = 10 * 1024 * 1024
LOG_TAIL_LINES = 20
LOG_TAIL_BYTES = 32 * 1024
# Above every system's highest process id.
NO_SUCH_PID = 2**31 - 1


def is_alive(layout: Layout) -> bool:
    """Whether any process of the server lives, be it only a backend that lost its postmaster."""
    return is_held(layout.server_lock)


def launch(
    layout: Layout, account: Account, binaries: Binaries, port: int, settings: Mapping[str, str]
) -> None:
    """Start the server in a session of its own; it is not our child and outlives us."""
    account.own(layout.cluster)
    _write_config(layout, settings)
    _forget_dead_server(layout, account)
    _make_socket_dir(layout, account)
    _rotate_log(layout)
    lock = FileLock(layout.server_lock)
    lock.take_alone()
    try:
        _spawn(layout, account, _command(layout, binaries, port), lock)
    finally:
        lock.hand_over()


def log_tail(layout: Layout) -> str:
    try:
        with layout.log_file.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return "(there is no log)"
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])


def _command(layout: Layout, binaries: Binaries, port: int) -> list[str]:
    options = {
        "config_file": layout.config_file,
        "listen_addresses": HOST,
        "port": port,
        "unix_socket_directories": layout.socket_dir or "",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [binaries.program("postgres"), "-D", str(layout.cluster), *flags]


def _spawn(layout: Layout, account: Account, command: list[str], lock: FileLock) -> None:
    with layout.log_file.open("ab") as log:
        layout.log_file.chmod(0o600)
        # The shell leaves at once, so the server is nobody's child and nobody need reap it.
        account.run(
            ["sh", "-c", '"$@" &', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lock.fd],
        )


def _write_config(layout: Layout, settings: Mapping[str, str]) -> None:
    layout.config_file.write_text(tuning.render(settings))
    layout.config_file.chmod(0o644)  # the server may run as another user; there are no secrets


def _forget_dead_server(layout: Layout, account: Account) -> None:
    """Let go of a process id that another process has by now; Postgres would wait for that one.

    The rest of the file stays, for Postgres to see whether its shared memory is still in use.
    """
    path = layout.cluster / "postmaster.pid"
    if not path.exists():
        return
    _, *rest = path.read_text().splitlines() or [""]
    text = "\n".join([str(NO_SUCH_PID), *rest, ""])
    # Written as the account: root must not write in a folder where others can place links.
    account.run(["sh", "-c", 'cat > "$1"', "sh", str(path)], input=text)


def _make_socket_dir(layout: Layout, account: Account) -> None:
    shutil.rmtree(layout.sockets, ignore_errors=True)
    if layout.socket_dir is not None:
        layout.socket_dir.mkdir(mode=0o700)
        account.own(layout.socket_dir)


def _rotate_log(layout: Layout) -> None:
    if layout.log_file.exists() and layout.log_file.stat().st_size > LARGEST_LOG:
        layout.log_file.replace(layout.previous_log_file)
