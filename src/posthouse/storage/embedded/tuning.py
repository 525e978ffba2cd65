"""The settings of the server."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from posthouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

MEGABYTE = 1024 * 1024
CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
NAME = re.compile(r"[a-z_][a-z0-9_.]*")
# Used to find the server again, so that callers cannot set them.
KEPT = frozenset({"port", "listen_addresses", "unix_socket_directories", "data_directory", "config_file"})


def server_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    return {**_defaults(), **_checked(overrides)}


def _defaults() -> dict[str, str]:
    return {
        "shared_buffers": f"{shared_buffers_megabytes(memory_bytes())}MB",
        "max_connections": "200",
        # An accepted job is on disk.
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
        # For roles that users create, with passwords of their own; ours uses fewer iterations.
        "scram_iterations": "4096",
    }


def _checked(overrides: Mapping[str, str]) -> Mapping[str, str]:
    for name in overrides:
        if name in KEPT or not NAME.fullmatch(name):
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
