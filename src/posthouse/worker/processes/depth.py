"""How many calls a process is given at a time."""

from __future__ import annotations

AHEAD_SECONDS = 0.005
MAX_DEPTH = 16
"""No-op jobs per second on 2 busy cores, in two runs: 2,277 and 1,719 at depth 1; 2,384 and 3,749 at 4; 2,868
and 3,060 at 8; 4,130 and 4,974 at 16.
"""


class Depth:
    """The number of calls to send ahead.

    One, unless the last calls were short: then as many as finish in a moment, so that a process need not wait
    for the worker between calls. One long call resets it to one.
    """

    def __init__(self) -> None:
        self._typical = 1.0
        self.value = 1

    def note(self, took: float) -> bool:
        """Record the duration of a call. Returns whether the depth has changed."""
        self._typical = took if took > self._typical else 0.9 * self._typical + 0.1 * took
        before, self.value = self.value, max(1, min(MAX_DEPTH, int(AHEAD_SECONDS / max(self._typical, 1e-6))))
        return self.value != before
