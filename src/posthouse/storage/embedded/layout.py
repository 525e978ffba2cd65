"""The data directory: its files, the folder that the server uses for it, and the saved port and passwords.

The server uses the data directory itself, except for root on a system without user namespaces. There the
server runs as an unprivileged user, who cannot enter folders such as /root: the data then goes to a
separate folder outside them, and a file in the data directory names that folder for later starts.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import secrets
import socket
import stat
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from posthouse.errors import EmbeddedUnavailable
from posthouse.storage.embedded import accounts

OTHERS_MAY_READ = 0o066
# The longest socket path that the kernel accepts (sun_path, without the closing zero).
MAX_SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103


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
    def staging_cluster(self) -> Path:
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
        return self.sockets if listable and len(longest) <= MAX_SOCKET_PATH_BYTES else None


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
    status = layout.root.stat()
    if status.st_uid != os.geteuid() or not status.st_mode & OTHERS_MAY_READ:
        return
    is_ours = layout.gate_lock.exists() or not any(layout.root.iterdir())
    if is_ours and not status.st_mode & stat.S_ISVTX:
        layout.root.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS_MAY_READ)


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


def existing_layout(data_dir: Path) -> Layout:
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
    status = folder.lstat()
    return status.st_uid == os.geteuid() and not status.st_mode & OTHERS_MAY_WRITE


def _announce(requested: Layout, moved: Layout) -> None:
    moved.origin_file.write_text(f"{requested.root}\n")
    requested.moved_file.write_text(f"{moved.root}\n")
    _log.warning(
        "the embedded Postgres stores its data in %s: Postgres does not run as root, and no other user can "
        "enter %s",
        moved.root,
        requested.root,
    )


HOST = "127.0.0.1"
ADMIN = "posthouse_admin"
"""The superuser: prepares the server, and creates the extensions of applications. No job runs as it."""
USER = "posthouse"
"""The role that applications connect as: it owns the database and is no superuser."""
DATABASE = "posthouse"


@dataclass(frozen=True, slots=True)
class State:
    port: int
    password: str
    admin_password: str

    def url_for(self, database: str) -> str:
        return f"postgresql://{USER}:{self.password}@{HOST}:{self.port}/{quote(database, safe='')}"

    def admin_url_for(self, database: str) -> str:
        return f"postgresql://{ADMIN}:{self.admin_password}@{HOST}:{self.port}/{quote(database, safe='')}"


def new_password() -> str:
    return secrets.token_urlsafe(24)


def load_state(path: Path) -> State | None:
    try:
        fields = json.loads(path.read_text())
        return State(int(fields["port"]), str(fields["password"]), str(fields["admin_password"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddedUnavailable(
            f"cannot read {path} ({error!r}); it contains the port and the passwords of the embedded "
            "Postgres. Restore it from a backup, or use another data directory."
        ) from error


def save_state(path: Path, state: State) -> None:
    """Replace the file atomically: a crash leaves either the old or the new content."""
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in this folder survive a power failure."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# Below the ports that kernels use for outgoing connections, so that the port is still free at the next
# start and the URL stays the same.
PREFERRED_PORTS = range(20_000, 32_000)
PORT_ATTEMPTS = 50


def is_port_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Postgres does: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def choose_port() -> int:
    for port in random.sample(PREFERRED_PORTS, PORT_ATTEMPTS):
        if is_port_free(port):
            return port
    return _any_free()


def _any_free() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
