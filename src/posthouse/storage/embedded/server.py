"""The handle through which a process uses the embedded Postgres."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from posthouse.errors import DatabaseUnavailable, EmbeddedUnavailable
from posthouse.storage.embedded import state
from posthouse.storage.embedded.location import existing, locate
from posthouse.storage.embedded.locks import FileLock, held_alone
from posthouse.storage.embedded.probe import ask
from posthouse.storage.embedded.startup import Options, bring_up, shut_down
from posthouse.storage.embedded.state import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from posthouse.storage.embedded.layout import Layout
    from posthouse.storage.embedded.probe import Answer

STOP_SECONDS = 60.0


class EmbeddedPostgres:
    """A running embedded Postgres. Close it after use: the last process to close it stops the server."""

    def __init__(self, layout: Layout, answer: Answer, users: FileLock, *, keep_running: bool) -> None:
        self._layout = layout
        self._state = answer.state
        self._users: FileLock | None = users
        self._process = os.getpid()
        self._keep_running = keep_running
        self.server_version = answer.server_version

    @property
    def data_dir(self) -> Path:
        return self._layout.root

    @property
    def log_file(self) -> Path:
        return self._layout.log_file

    @property
    def socket_dir(self) -> Path | None:
        """The folder of the Unix socket, or None if its path would be too long."""
        return self._layout.socket_dir

    @property
    def url(self) -> str:
        """The URL of Posthouse's own database, with the password."""
        return self.url_for(DATABASE)

    def url_for(self, database: str) -> str:
        return self._state.url_for(database)

    def admin_url_for(self, database: str = DATABASE) -> str:
        """The URL for the superuser, for maintenance: applications connect with ``url``."""
        return self._state.admin_url_for(database)

    def close(self) -> None:
        """Detach from the server, and stop it if no other process uses it."""
        users, self._users = self._users, None
        if users is None:
            return
        if os.getpid() != self._process:
            # In a forked child: the lock belongs to the parent.
            users.hand_over()
            return
        try:
            self._leave(users)
        finally:
            users.release()

    def _leave(self, users: FileLock) -> None:
        with held_alone(self._layout.gate_lock, STOP_SECONDS):
            if users.try_alone() and not self._keep_running:
                shut_down(self._layout, STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddedPostgres({str(self.data_dir)!r}, port={self._state.port})"


def ensure(
    data_dir: Path,
    *,
    settings: Mapping[str, str] | None = None,
    keep_running: bool = False,
    run_as: str | None = None,
    report: Callable[[str], None] | None = None,
    timeout: float = 120.0,
) -> EmbeddedPostgres:
    """Attach to the Postgres of this directory; create and start it if necessary.

    Several processes may call this at the same time. ``settings`` are Postgres settings for a server
    that has to be started; a running server keeps its own. With ``keep_running``, closing this handle
    does not stop the server. As root, the server runs as the user ``run_as`` if given. ``report`` is
    called with "initialising", "starting" and "ready".
    """
    layout = locate(data_dir, run_as)
    options = Options(settings or {}, run_as, report or (lambda _step: None), timeout)
    with held_alone(layout.gate_lock, timeout):
        users = FileLock(layout.users_lock)
        try:
            users.share()
            answer = bring_up(layout, options)
        except (KeyboardInterrupt, SystemExit):
            # Interrupted between the launch and the first answer: no other process would stop the server.
            with suppress(DatabaseUnavailable):
                if users.try_alone():
                    shut_down(layout, STOP_SECONDS)
            users.release()
            raise
        except BaseException:
            users.release()
            raise
    return EmbeddedPostgres(layout, answer, users, keep_running=keep_running)


def admin_url_of(data_dir: Path, url: str) -> str | None:
    """Return the superuser's URL if this is the URL of the server of this directory for applications."""
    try:
        known = state.load(existing(data_dir).state_file)
    except EmbeddedUnavailable:
        return None
    return known.admin_url_for(DATABASE) if known is not None and known.url_for(DATABASE) == url else None


def running_url(data_dir: Path) -> str | None:
    """Return the URL of Posthouse's database if the server of this directory is running. Starts nothing."""
    answer = ask(existing(data_dir))
    return None if answer is None else answer.state.url_for(DATABASE)
