"""All modes of dispatch pass the same checks."""

import pytest

from support.dispatch_conformance import CHECKS, Runs


@pytest.fixture(params=["database", "redis", "hybrid"])
def mode(request):
    if request.param == "database":
        return {}
    server = request.getfixturevalue("redis_server")
    return {"dispatch": request.param, "redis_url": server.url}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_dispatch_conforms(check, settings, db, mode):
    runs = Runs(settings)
    async with runs.app:
        await check(runs, db, mode)
