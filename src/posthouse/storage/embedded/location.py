"""Which folder the server uses for a requested data directory.

It is the data directory itself, except for root on a system without user namespaces. There the server runs
as an unprivileged user, who cannot enter folders such as /root: the data then goes to a folder of its own
outside them, and a file in the data directory names that folder for later starts.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from posthouse.errors import EmbeddedUnavailable
from posthouse.storage.embedded import accounts
from posthouse.storage.embedded.layout import Layout, open_layout

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
