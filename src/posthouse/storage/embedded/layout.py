"""The files of the data directory."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posthouse.errors import EmbeddedUnavailable

if TYPE_CHECKING:
    from pathlib import Path

OTHERS_MAY_READ = 0o066
# The longest socket path that the kernel accepts (sun_path, without the closing zero).
LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103


@dataclass(frozen=True, slots=True)
class Layout:
    root: Path

    @property
    def moved_file(self) -> Path:
        """Names the folder that is used instead of this one: see location."""
        return self.root / "moved-to"

    @property
    def origin_file(self) -> Path:
        """Names the data directory that this folder is used for, if that is another one."""
        return self.root / "moved-from"

    @property
    def cluster(self) -> Path:
        """The data directory of Postgres itself."""
        return self.root / "cluster"

    @property
    def unfinished_cluster(self) -> Path:
        return self.root / "cluster.new"

    @property
    def password_file(self) -> Path:
        """Exists only while the cluster is created."""
        return self.root / "initdb.password"

    @property
    def state_file(self) -> Path:
        return self.root / "state.json"

    @property
    def config_file(self) -> Path:
        return self.root / "server.conf"

    @property
    def log_file(self) -> Path:
        return self.root / "server.log"

    @property
    def previous_log_file(self) -> Path:
        return self.root / "server.log.1"

    @property
    def gate_lock(self) -> Path:
        return self.root / "gate.lock"

    @property
    def users_lock(self) -> Path:
        return self.root / "users.lock"

    @property
    def server_lock(self) -> Path:
        return self.root / "server.lock"

    @property
    def binaries(self) -> Path:
        return self.root / "binaries"

    @property
    def sockets(self) -> Path:
        return self.root / "socket"

    @property
    def socket_dir(self) -> Path | None:
        """The folder of the Unix socket, or None if its path would be too long."""
        longest = os.fsencode(self.sockets / ".s.PGSQL.65535")
        # Postgres expects a list, in which commas and quotes have a meaning.
        listable = not set(str(self.sockets)) & set(",\"'")
        return self.sockets if listable and len(longest) <= LONGEST_SOCKET_PATH else None


def open_layout(data_dir: Path) -> Layout:
    """Create the data directory if it is missing, closed to other users."""
    layout = Layout(data_dir.expanduser().resolve())
    try:
        layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close_to_others(layout)
        layout.gate_lock.touch(mode=0o600)
    except OSError as error:
        raise EmbeddedUnavailable(
            f"the embedded Postgres cannot use the data directory {layout.root}: {error.strerror}. "
            "Set POSTHOUSE_DATA_DIR to a folder that this user can write to, or run as its owner."
        ) from error
    return layout


def _close_to_others(layout: Layout) -> None:
    """Take read and write permission from other users, if the folder is ours: new, or used before.

    Permission to pass through stays: the account that Postgres runs as may need it (accounts.py). A folder
    with other content keeps its mode; what is created in it is private.
    """
    about = layout.root.stat()
    if about.st_uid != os.geteuid() or not about.st_mode & OTHERS_MAY_READ:
        return
    is_ours = layout.gate_lock.exists() or not any(layout.root.iterdir())
    if is_ours and not about.st_mode & stat.S_ISVTX:
        layout.root.chmod(stat.S_IMODE(about.st_mode) & ~OTHERS_MAY_READ)
