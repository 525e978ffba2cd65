"""A real Redis for the tests of dispatch."""

from __future__ import annotations

import pytest
from bench.redis_server import MISSING, PROGRAM, RedisServer


@pytest.fixture
def redis_server():
    """A Redis of this test's own. Without redis-server the test is skipped."""
    if PROGRAM is None:
        pytest.skip(MISSING)
    with RedisServer() as server:
        yield server
