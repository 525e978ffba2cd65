"""What lies where in the data directory."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posthouse.errors import EmbeddedUnavailable

if TYPE_CHECKING:
    from pathlib import Path

# The kernel cuts socket paths off at this length (sun_path, without its closing zero).
LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103


@dataclass(frozen=True, slots=True)
class Layout:
    root: Path

    @property
    def cluster(self) -> Path:
        """What Postgres calls its data directory."""
        return self.root / "cluster"

    @property
    def unfinished_cluster(self) -> Path:
        return self.root / "cluster.new"

    @property
    def password_file(self) -> Path:
        """Exists only while the cluster is made."""
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
        """The folder of the unix socket, or nothing where the path does not fit."""
        longest = os.fsencode(self.sockets / ".s.PGSQL.65535")
        # Postgres reads a list here, so a comma or a quote would change its meaning.
        listable = not set(str(self.sockets)) & set(",\"'")
        return self.sockets if listable and len(longest) <= LONGEST_SOCKET_PATH else None


def open_layout(data_dir: Path) -> Layout:
    """Make the data directory where it is missing, closed to other users."""
    layout = Layout(data_dir.expanduser().resolve())
    try:
        layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        layout.gate_lock.touch(mode=0o600)
    except OSError as error:
        raise EmbeddedUnavailable(
            f"The embedded Postgres cannot use {layout.root}: {error.strerror}. "
            "Choose a data directory that this user may write to, or run as its owner."
        ) from error
    return layout
