"""The real command line, keepers, and jobs that fail."""

import pytest

from commandline import connection, posthouse
from posthouse.keeper.keeper import Keeper

__all__ = ["connection", "posthouse"]


@pytest.fixture
async def keeper(settings):
    keeper = Keeper(settings.database_url, settings)
    yield keeper
    await keeper.stop()
