"""Memory limit of a handler."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZES = Path("/proc/self/statm")


@contextmanager
def limited_memory(megabytes: int | None) -> Iterator[None]:
    """Limit the additional memory of the block. Beyond it Python raises MemoryError, and C code usually
    aborts.

    Only on Linux, where the kernel enforces it.
    """
    if megabytes is None or not _SIZES.exists():
        yield
        return
    used = int(_SIZES.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
