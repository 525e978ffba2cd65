"""The state file of the embedded server, and its port."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from posthouse.errors import EmbeddedUnavailable

if TYPE_CHECKING:
    from pathlib import Path


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


def load(path: Path) -> State | None:
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


def save(path: Path, state: State) -> None:
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
OURS = range(20_000, 32_000)
TRIES = 50


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Postgres does: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def choose_port() -> int:
    for port in random.sample(OURS, TRIES):
        if is_free(port):
            return port
    return _any_free()


def _any_free() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
