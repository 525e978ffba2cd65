"""The cluster and the processes of the embedded server: how they are created, configured and started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from posthouse.errors import ConfigurationError, EmbeddedUnavailable
from posthouse.storage.embedded.layout import ADMIN, HOST, sync_folder
from posthouse.storage.embedded.locks import FileLock, is_held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posthouse.storage.embedded.accounts import Account
    from posthouse.storage.embedded.binaries import Binaries
    from posthouse.storage.embedded.layout import Layout


def create_cluster(
    layout: Layout, account: Account, binaries: Binaries, password: str, *, durable: bool
) -> None:
    """Create the cluster beside its final place, then rename it: an incomplete one is never used."""
    shutil.rmtree(layout.staging_cluster, ignore_errors=True)
    layout.staging_cluster.mkdir(mode=0o700)
    account.own(layout.staging_cluster)
    with _password_file(layout, account, password):
        _initdb(layout, account, binaries, durable=durable)
    layout.staging_cluster.rename(layout.cluster)
    sync_folder(layout.root)


def check_cluster_version(layout: Layout, binaries: Binaries) -> None:
    try:
        found = (layout.cluster / "PG_VERSION").read_text().strip()
    except OSError as error:
        raise EmbeddedUnavailable(
            f"cannot read the Postgres cluster in {layout.cluster}: {error.strerror}. "
            "Restore it from a backup, or use another data directory."
        ) from error
    if found != str(binaries.major):
        raise EmbeddedUnavailable(
            f"the cluster in {layout.cluster} was created by Postgres {found}, but Postgres "
            f"{binaries.major} is installed. Migrate the data with pg_upgrade or with pg_dump and psql, "
            "or use another data directory."
        )


@contextmanager
def _password_file(layout: Layout, account: Account, password: str) -> Iterator[None]:
    path = layout.password_file
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(password)
        account.own(path)
        yield
    finally:
        path.unlink()


def _initdb(layout: Layout, account: Account, binaries: Binaries, *, durable: bool) -> None:
    result = _run_initdb(layout, account, binaries, "C.UTF-8", durable=durable)
    if result.returncode and "locale" in result.stderr:
        # The system has no C.UTF-8 locale. Sort order and letter case come from Postgres itself.
        result = _run_initdb(layout, account, binaries, "C", durable=durable)
    if result.returncode:
        raise EmbeddedUnavailable(
            f"initdb could not create the embedded Postgres in {layout.root}:\n{result.stderr.strip()}"
        )


def _run_initdb(
    layout: Layout, account: Account, binaries: Binaries, locale: str, *, durable: bool
) -> subprocess.CompletedProcess[str]:
    return account.run(
        [
            binaries.program("initdb"),
            f"--pgdata={layout.staging_cluster}",
            f"--username={ADMIN}",
            f"--pwfile={layout.password_file}",
            "--auth=scram-sha-256",
            # Iterations protect guessable passwords. This one is random, and they cost 4 ms per connection.
            "--set=scram_iterations=1",
            "--encoding=UTF8",
            # Built into Postgres: indexes stay valid when the C library of the system changes.
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            f"--locale={locale}",
            "--no-instructions",
            *([] if durable else ["--no-sync"]),
        ],
        capture_output=True,
    )


MEGABYTE = 1024 * 1024
CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
NAME = re.compile(r"[a-z_][a-z0-9_.]*")
# These settings are needed to find the server again, so callers cannot set them.
RESERVED_SETTINGS = frozenset(
    {"port", "listen_addresses", "unix_socket_directories", "data_directory", "config_file"}
)


def server_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    return {**_defaults(), **_checked(overrides)}


def _defaults() -> dict[str, str]:
    return {
        "shared_buffers": f"{shared_buffers_megabytes(memory_bytes())}MB",
        "max_connections": "200",
        # An accepted job must be on disk.
        "fsync": "on",
        "synchronous_commit": "on",
        # Fewer checkpoints: after each one, the first change of a page writes the whole page to the log.
        "max_wal_size": "2GB",
        "checkpoint_timeout": "15min",
        "wal_compression": "off",
        # Queue tables collect dead rows quickly.
        "autovacuum_naptime": "15s",
        # Our queries are short: JIT compilation costs more than running them.
        "jit": "off",
        "random_page_cost": "1.1",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "password_encryption": "scram-sha-256",
        # For roles that users create, with their own passwords; the roles created here use fewer
        # iterations.
        "scram_iterations": "4096",
    }


def _checked(overrides: Mapping[str, str]) -> Mapping[str, str]:
    for name in overrides:
        if name in RESERVED_SETTINGS or not NAME.fullmatch(name):
            raise ConfigurationError(f"the embedded Postgres does not accept the setting {name!r}")
    return overrides


def render(settings: Mapping[str, str]) -> str:
    lines = [f"{name} = {_quoted(value)}" for name, value in settings.items()]
    return "\n".join(
        [
            "# Overwritten at every start. To change a setting permanently, use ALTER SYSTEM.",
            "include 'cluster/postgresql.conf'",
            *lines,
            "",
        ]
    )


def _quoted(value: str) -> str:
    if "\n" in value or "\0" in value:
        raise ConfigurationError("the value of a Postgres setting must be a single line")
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def shared_buffers_megabytes(memory: int) -> int:
    return min(512, max(128, memory // 4 // MEGABYTE))


def memory_bytes() -> int:
    """Return the memory of the machine, or of the container if that is less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *(limit for path in CONTAINER_LIMITS if (limit := _limit(path)))])


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such limit, or the word "max"
        return None


MAX_LOG_BYTES = 10 * 1024 * 1024
LOG_TAIL_LINES = 20
LOG_TAIL_BYTES = 32 * 1024
# Higher than any process id.
NO_SUCH_PID = 2**31 - 1


def is_alive(layout: Layout) -> bool:
    """Whether a process of the server is alive, even if only a backend without its postmaster."""
    return is_held(layout.server_lock)


def launch(
    layout: Layout, account: Account, binaries: Binaries, port: int, settings: Mapping[str, str]
) -> None:
    """Start the server in its own session, not as our child: it outlives this process."""
    account.own(layout.cluster)
    _write_config(layout, settings)
    _replace_dead_pid(layout, account)
    _make_socket_dir(layout, account)
    _rotate_log(layout)
    lock = FileLock(layout.server_lock)
    lock.lock_exclusive()
    try:
        _spawn(layout, account, _command(layout, binaries, port), lock)
    finally:
        lock.close_without_unlock()


def log_tail(layout: Layout) -> str:
    try:
        with layout.log_file.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return "(no log file)"
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])


def _command(layout: Layout, binaries: Binaries, port: int) -> list[str]:
    options = {
        "config_file": layout.config_file,
        "listen_addresses": HOST,
        "port": port,
        "unix_socket_directories": layout.socket_dir or "",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [binaries.program("postgres"), "-D", str(layout.cluster), *flags]


def _spawn(layout: Layout, account: Account, command: list[str], lock: FileLock) -> None:
    with layout.log_file.open("ab") as log:
        layout.log_file.chmod(0o600)
        # The shell exits at once, so that the server is not our child and need not be reaped.
        account.run(
            ["sh", "-c", '"$@" &', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lock.fd],
        )


def _write_config(layout: Layout, settings: Mapping[str, str]) -> None:
    layout.config_file.write_text(render(settings))
    layout.config_file.chmod(0o644)  # the server may run as another user; the file contains no secrets


def _replace_dead_pid(layout: Layout, account: Account) -> None:
    """Replace the process id of a dead server: Postgres would wait for another process with that id.

    The rest of the file stays: Postgres checks with it whether its shared memory is still in use.
    """
    path = layout.cluster / "postmaster.pid"
    if not path.exists():
        return
    _, *rest = path.read_text().splitlines() or [""]
    text = "\n".join([str(NO_SUCH_PID), *rest, ""])
    # Written as the account: root must not write to a folder where another user can create links.
    account.run(["sh", "-c", 'cat > "$1"', "sh", str(path)], input=text)


def _make_socket_dir(layout: Layout, account: Account) -> None:
    shutil.rmtree(layout.sockets, ignore_errors=True)
    if layout.socket_dir is not None:
        layout.socket_dir.mkdir(mode=0o700)
        account.own(layout.socket_dir)


def _rotate_log(layout: Layout) -> None:
    if layout.log_file.exists() and layout.log_file.stat().st_size > MAX_LOG_BYTES:
        layout.log_file.replace(layout.previous_log_file)
