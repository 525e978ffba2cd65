"""The list of applications, and who may run their demos."""

import httpx
import pytest

from posthouse.identity import Role, issue_key
from posthouse.server import create_app
from posthouse.server.routes.admin.apps import Application
from posthouse.settings import Settings
from posthouse.storage.connections import connect_async

SHOP = Application("shop", "Shop", "Sells bread.", has_demo=True)
BARE = Application("bare", "Bare", "Has no demo.")


@pytest.fixture
async def served(database):
    api = create_app(Settings(database_url=database), applications=[SHOP, BARE])
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://shop/api/v1") as client,
    ):
        yield client


@pytest.fixture
async def keys(database):
    tenants = {"super-admin": None, "tenant-admin": "acme", "tenant-viewer": "acme"}
    async with await connect_async(database, "test") as connection:
        issued = {
            role: await issue_key(connection, role, Role(role), tenant=tenant, actor="test")
            for role, tenant in tenants.items()
        }
    return {role: {"Authorization": f"Bearer {key}"} for role, key in issued.items()}


async def test_only_super_admins_run_demos_and_one_run_of_each_is_active(served, keys):
    for role in ("tenant-admin", "tenant-viewer"):
        assert (await served.post("/apps/shop/demo", json={}, headers=keys[role])).status_code == 403
    first = await served.post("/apps/shop/demo", json={"size": 3}, headers=keys["super-admin"])
    assert first.status_code == 202
    job = first.json()
    assert (job["tenant_id"], job["payload"]) == ("posthouse", {"name": "shop", "size": 3})
    assert job["created_by"].startswith("key:")
    second = await served.post("/apps/shop/demo", json={}, headers=keys["super-admin"])
    assert second.json()["id"] == job["id"]
    listed = (await served.get("/apps", headers=keys["super-admin"])).json()
    assert [(one["name"], one["has_demo"]) for one in listed] == [("bare", False), ("shop", True)]
    assert listed[1]["demo"]["id"] == job["id"]
    listed = (await served.get("/apps", headers=keys["tenant-viewer"])).json()
    assert [one["demo"] for one in listed] == [None, None]


async def test_demos_cannot_be_enqueued_as_other_jobs_are(served, keys):
    for role in ("super-admin", "tenant-admin"):
        job = {"definition_key": "posthouse.demo", "payload": {"name": "shop"}}
        refused = await served.post("/jobs", json=job, headers=keys[role])
        assert refused.status_code in {404, 409, 422}, refused.text


@pytest.mark.parametrize("name", ["bare", "unknown", "--serve"])
async def test_an_application_without_a_demo_is_not_found(served, keys, name):
    refused = await served.post(f"/apps/{name}/demo", json={}, headers=keys["super-admin"])
    assert (refused.status_code, "has no demo" in refused.json()["detail"]) == (404, True)


async def test_a_wrong_size_is_refused(served, keys):
    for size in (0, -1, "many", 10**9):
        refused = await served.post("/apps/shop/demo", json={"size": size}, headers=keys["super-admin"])
        assert refused.status_code == 422
