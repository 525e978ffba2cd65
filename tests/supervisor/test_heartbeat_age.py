"""How long a child process may be silent, for any lease."""

import pytest

from posthouse.settings import Settings
from posthouse.supervisor.liveness import silence_limit, tick_seconds


@pytest.mark.parametrize(("heartbeat", "lease"), [(5, 30), (20, 60), (1, 5), (60, 600), (5, 10), (0.3, 1)])
def test_a_child_shows_several_times_within_its_limit_that_it_runs(heartbeat, lease):
    settings = Settings(heartbeat_seconds=heartbeat, lease_seconds=lease)
    assert 0 < 4 * tick_seconds(settings) <= silence_limit(settings)


@pytest.mark.parametrize(("heartbeat", "lease"), [(5, 30), (20, 60), (1, 5), (60, 600)])
def test_a_silent_child_is_found_before_its_leases_expire(heartbeat, lease):
    """Its silence may be noticed one tick late and its end another; the oldest lease is 1.5 beats old."""
    settings = Settings(heartbeat_seconds=heartbeat, lease_seconds=lease)
    assert silence_limit(settings) + 2 * tick_seconds(settings) < lease - 1.5 * heartbeat
