"""What is saved between starts of the server: its port and its passwords."""

from __future__ import annotations

import json
import os
import secrets
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
