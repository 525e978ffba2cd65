"""Waits for what must come."""

import time


def eventually(look, timeout=60):
    """Looks until it is true, and returns what it found."""
    deadline = time.monotonic() + timeout
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"still {found!r}"
        time.sleep(0.05)
