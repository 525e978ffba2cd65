"""What we remember of our server from one start to the next: its port and its password."""

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
USER = "posthouse"
DATABASE = "posthouse"


@dataclass(frozen=True, slots=True)
class State:
    port: int
    password: str

    def url_for(self, database: str) -> str:
        return f"postgresql://{USER}:{self.password}@{HOST}:{self.port}/{quote(database, safe='')}"


def new_password() -> str:
    return secrets.token_urlsafe(24)


def load(path: Path) -> State | None:
    try:
        fields = json.loads(path.read_text())
        return State(port=int(fields["port"]), password=str(fields["password"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddedUnavailable(
            f"{path} cannot be read ({error!r}). It holds the port and the password of the "
            "embedded Postgres: restore it, or start with another data directory."
        ) from error


def save(path: Path, state: State) -> None:
    """Replace the file in one step, so that a crash leaves the old or the new one, whole."""
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
    """Make renames in this folder survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
