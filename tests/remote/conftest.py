"""Servers, keys, and workers that have a database or only a server."""

from __future__ import annotations

import pytest
from remotekit import Site


@pytest.fixture
async def site(database, tmp_path):
    """A server over a database of its own."""
    async with Site.over(database, tmp_path) as site:
        yield site
