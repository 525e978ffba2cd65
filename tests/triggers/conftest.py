import pytest

from support.schedules import timeline_of


@pytest.fixture
async def timeline(app, db, settings):
    async with timeline_of(app, db, settings) as made:
        yield made
