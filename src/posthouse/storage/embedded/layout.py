"""The files of the data directory, and the folder that the server uses for it.

That folder is the data directory itself, except for root on a system without user namespaces. There the
server runs as an unprivileged user, who cannot enter folders such as /root: the data then goes to a
separate folder outside them, and a file in the data directory names that folder for later starts.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posthouse.errors import EmbeddedUnavailable
from posthouse.storage.embedded import accounts

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
        """Names the folder that is used instead of this one: see locate."""
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


# Folders that every user can enter and that survive a reboot. The second one also exists where the first
# is on a read-only file system.
SHARED = (Path("/var/lib/posthouse/embedded"), Path("/var/tmp/posthouse/embedded"))  # noqa: S108 - owner is checked
OTHERS_MAY_WRITE = 0o022

_log = logging.getLogger("posthouse.embedded")


def locate(data_dir: Path, run_as: str | None = None) -> Layout:
    """Return the folder to use for this data directory, and create it where it is missing.

    The result depends only on the path and the system, so that processes that start at the same time
    choose the same folder, and so does a later start.
    """
    requested = open_layout(data_dir)
    if requested.moved_file.exists():
        return open_layout(Path(requested.moved_file.read_text().strip()))
    if run_as is not None or not _needs_another_folder(requested):
        return requested
    for shared in SHARED:
        moved = _below(shared, requested)
        if moved is not None:
            _announce(requested, moved)
            return moved
    return requested


def existing(data_dir: Path) -> Layout:
    """Return the folder that earlier starts chose for this data directory. Creates nothing."""
    requested = Layout(data_dir.expanduser().resolve())
    if not requested.moved_file.exists():
        return requested
    return Layout(Path(requested.moved_file.read_text().strip()))


def _needs_another_folder(requested: Layout) -> bool:
    is_new = os.geteuid() == accounts.ROOT and not requested.cluster.exists()
    return is_new and not accounts.can_enter_parent(requested)


def _below(shared: Path, requested: Layout) -> Layout | None:
    digest = hashlib.sha256(os.fsencode(requested.root)).hexdigest()[:12]
    layout = Layout(shared / f"{requested.root.name[:40]}-{digest}")
    try:
        for folder in (shared.parent, shared):
            folder.mkdir(mode=0o755, exist_ok=True)
            if not _is_private(folder):
                return None
        open_layout(layout.root)
    except (OSError, EmbeddedUnavailable):
        return None
    return layout if accounts.can_enter_parent(layout) else None


def _is_private(folder: Path) -> bool:
    """Whether only this user can change the folder: another user could exchange its content otherwise."""
    about = folder.lstat()
    return about.st_uid == os.geteuid() and not about.st_mode & OTHERS_MAY_WRITE


def _announce(requested: Layout, moved: Layout) -> None:
    moved.origin_file.write_text(f"{requested.root}\n")
    requested.moved_file.write_text(f"{moved.root}\n")
    _log.warning(
        "the embedded Postgres stores its data in %s: Postgres does not run as root, and no other user can "
        "enter %s",
        moved.root,
        requested.root,
    )
