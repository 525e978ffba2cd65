"""Start, attach to and stop the embedded server, and check that the server on the port is the right one."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import sql

from posthouse.errors import DatabaseUnavailable, EmbeddedUnavailable
from posthouse.storage.embedded import accounts, process
from posthouse.storage.embedded.binaries import find_binaries
from posthouse.storage.embedded.layout import (
    ADMIN,
    DATABASE,
    HOST,
    USER,
    State,
    choose_port,
    existing_layout,
    is_port_free,
    load_state,
    locate,
    new_password,
    save_state,
)
from posthouse.storage.embedded.locks import FileLock, attempts, exclusive_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from posthouse.storage.embedded.accounts import Account
    from posthouse.storage.embedded.binaries import Binaries
    from posthouse.storage.embedded.layout import Layout


CONNECT_SECONDS = 5
LIBPQ_WITH_REQUIRE_AUTH = 160_000
IDENTITY_QUERY = """
    select current_setting('data_directory'),
           current_setting('server_version'),
           pg_read_file('postmaster.pid'),
           exists (select from pg_database where datname = %s)
"""


@dataclass(frozen=True, slots=True)
class RunningServer:
    state: State
    server_version: str
    postmaster_pid: int


def identify(layout: Layout) -> RunningServer | None:
    """Return the running server of this directory, or None if it does not answer.

    The process id comes from the running server, not from a file that may be out of date.
    """
    known = load_state(layout.state_file)
    if known is None:
        return None
    try:
        with _connect(known) as connection:
            return _read_identity(connection, layout, known)
    except psycopg.Error:
        return None


def _connect(known: State) -> psycopg.Connection[tuple[str, str, str, bool]]:
    # All parameters are given, so that PG* variables have no effect.
    return psycopg.connect(
        host=HOST,
        hostaddr=HOST,
        port=known.port,
        user=ADMIN,
        password=known.admin_password,
        dbname="postgres",
        sslmode="disable",
        gssencmode="disable",
        options="",
        connect_timeout=CONNECT_SECONDS,
        autocommit=True,
        **_only_scram(),
    )


def _only_scram() -> dict[str, Any]:
    """Never send the password in plain text: another program may have taken our port."""
    known_to_libpq = psycopg.pq.version() >= LIBPQ_WITH_REQUIRE_AUTH
    return {"require_auth": "scram-sha-256"} if known_to_libpq else {}


def _read_identity(
    connection: psycopg.Connection[tuple[str, str, str, bool]], layout: Layout, known: State
) -> RunningServer | None:
    row = connection.execute(IDENTITY_QUERY, [DATABASE]).fetchone()
    assert row is not None
    cluster, version, pid_file, has_database = row
    if Path(cluster).resolve() != layout.cluster:
        return None
    if not has_database:
        _create_database(connection, known)
    return RunningServer(known, version, int(pid_file.split()[0]))


def _create_database(connection: psycopg.Connection[Any], known: State) -> None:
    """Create the role of the applications, then its database.

    The database comes last, so that its existence means that both exist. The role may create databases and
    roles, monitor the server, cancel backends and run checkpoints. It bypasses row-level security, because
    its policies permit all rows anyway, and COPY is not possible with it.
    """
    user, database = sql.Identifier(USER), sql.Identifier(DATABASE)
    if connection.execute("select from pg_roles where rolname = %s", [USER]).fetchone() is None:
        connection.execute(
            sql.SQL("create role {} login createdb createrole bypassrls password {}").format(
                user, sql.Literal(known.password)
            )
        )
    connection.execute(sql.SQL("grant pg_monitor, pg_signal_backend, pg_checkpoint to {}").format(user))
    connection.execute(sql.SQL("create database {} owner {}").format(database, user))


# Another program can take the port between our check and the start of the server.
PORT_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Options:
    settings: Mapping[str, str] = field(default_factory=dict)
    run_as: str | None = None
    report: Callable[[str], None] = lambda _step: None
    timeout: float = 120.0


def attach_or_start(layout: Layout, options: Options) -> RunningServer:
    """Attach to the server, or start it. The caller holds the gate."""
    running = _await_server(layout, options.timeout) or _start(layout, options)
    options.report("ready")
    return running


def stop_server(layout: Layout, timeout: float) -> None:
    """Stop the server and wait until its last process has ended. The caller holds the gate."""
    is_signaled = False
    for _ in attempts(timeout):
        if not process.is_alive(layout):
            return
        if not is_signaled and (running := identify(layout)):
            os.kill(running.postmaster_pid, signal.SIGINT)
            is_signaled = True
    raise DatabaseUnavailable(_with_log(layout, f"the embedded Postgres did not stop within {timeout:g} s."))


def _await_server(layout: Layout, timeout: float) -> RunningServer | None:
    """Wait while the server is alive: it may be recovering, stopping or busy. Return None if it is dead."""
    for _ in attempts(timeout):
        if not process.is_alive(layout):
            return None
        if running := identify(layout):
            return running
    raise DatabaseUnavailable(
        _with_log(
            layout,
            f"the embedded Postgres in {layout.root} is running but did not answer within {timeout:g} s. "
            "If it is recovering from a crash, try again later.",
        )
    )


def _start(layout: Layout, options: Options) -> RunningServer:
    settings = process.server_settings(options.settings)
    account, binaries = accounts.choose_account(layout, find_binaries(), options.run_as)
    _ensure_cluster(layout, account, binaries, settings, options)
    options.report("starting")
    for _ in range(PORT_ATTEMPTS):
        port = _reserve_port(layout)
        process.launch(layout, account, binaries, port, settings)
        if running := _await_server(layout, options.timeout):
            return running
        if is_port_free(port):
            break
    message = f"the embedded Postgres in {layout.root} did not start."
    raise DatabaseUnavailable(_with_log(layout, message))


def _ensure_cluster(
    layout: Layout,
    account: Account,
    binaries: Binaries,
    settings: Mapping[str, str],
    options: Options,
) -> None:
    if layout.cluster.exists():
        process.check_cluster_version(layout, binaries)
        return
    options.report("initialising")
    known = State(choose_port(), new_password(), new_password())
    save_state(layout.state_file, known)
    durable = settings["fsync"] != "off"
    process.create_cluster(layout, account, binaries, known.admin_password, durable=durable)


def _reserve_port(layout: Layout) -> int:
    """Return the port of the last start if it is still free, else a new one, and save it."""
    known = load_state(layout.state_file)
    if known is None:
        raise EmbeddedUnavailable(
            f"{layout.state_file} is missing; it contains the passwords of the embedded Postgres. "
            "Restore it from a backup, or use another data directory."
        )
    if not is_port_free(known.port):
        known = replace(known, port=choose_port())
        save_state(layout.state_file, known)
    return known.port


def _with_log(layout: Layout, message: str) -> str:
    return (
        f"{message}\nThe last lines of {layout.log_file}:\n{process.log_tail(layout)}\n"
        "Fix the reported problem, or set POSTHOUSE_DATABASE_URL to use another Postgres."
    )


STOP_SECONDS = 60.0


class EmbeddedPostgres:
    """A running embedded Postgres. Close it after use: the last process to close it stops the server."""

    def __init__(
        self, layout: Layout, running: RunningServer, users: FileLock, *, keep_running: bool
    ) -> None:
        self._layout = layout
        self._state = running.state
        self._users: FileLock | None = users
        self._process = os.getpid()
        self._keep_running = keep_running
        self.server_version = running.server_version

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
            users.close_without_unlock()
            return
        try:
            self._leave(users)
        finally:
            users.release()

    def _leave(self, users: FileLock) -> None:
        with exclusive_lock(self._layout.gate_lock, STOP_SECONDS):
            if users.try_lock_exclusive() and not self._keep_running:
                stop_server(self._layout, STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddedPostgres({str(self.data_dir)!r}, port={self._state.port})"


def attach_server(
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
    with exclusive_lock(layout.gate_lock, timeout):
        users = FileLock(layout.users_lock)
        try:
            users.lock_shared()
            running = attach_or_start(layout, options)
        except (KeyboardInterrupt, SystemExit):
            # Interrupted between the launch and the first answer: no other process would stop the server.
            with suppress(DatabaseUnavailable):
                if users.try_lock_exclusive():
                    stop_server(layout, STOP_SECONDS)
            users.release()
            raise
        except BaseException:
            users.release()
            raise
    return EmbeddedPostgres(layout, running, users, keep_running=keep_running)


def admin_url_of(data_dir: Path, url: str) -> str | None:
    """Return the superuser's URL if ``url`` is that of applications for this directory; else None."""
    try:
        known = load_state(existing_layout(data_dir).state_file)
    except EmbeddedUnavailable:
        return None
    return known.admin_url_for(DATABASE) if known is not None and known.url_for(DATABASE) == url else None


def running_url(data_dir: Path) -> str | None:
    """Return the URL of Posthouse's database if the server of this directory is running. Starts nothing."""
    running = identify(existing_layout(data_dir))
    return None if running is None else running.state.url_for(DATABASE)
