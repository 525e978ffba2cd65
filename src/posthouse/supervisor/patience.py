"""How long a child process may show no sign of life, and how often both sides look."""

from __future__ import annotations

from posthouse.settings import Settings
from posthouse.supervisor.blame import SAMPLE_SECONDS

LONGEST_TICK = 1.0
SHORTEST_TICK = 0.1


def silence_limit(settings: Settings) -> float:
    """Return how long a child may be silent: it is killed before its leases expire, or all its jobs would
    count a crash. A heartbeat renews only leases that are older than half an interval.
    """
    lasts = settings.lease_seconds - 1.5 * settings.heartbeat_seconds
    return max(0.85 * lasts - SAMPLE_SECONDS, 4 * SHORTEST_TICK)


def tick_seconds(settings: Settings) -> float:
    """Return how often a child shows that it runs, and how often the supervisor looks.

    A small share of the limit, so that a stuck child is still found before its leases expire: the supervisor
    may notice the silence one tick late, and its end another tick late.
    """
    return max(SHORTEST_TICK, min(LONGEST_TICK, silence_limit(settings) / 16))
