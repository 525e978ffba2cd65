"""A package with an application, a page and demos, as pip installs it."""

import pytest

APP = """
import asyncio
from pathlib import Path

import posthouse

app = posthouse.App(schema=Path(__file__).with_name("schema.sql"), routes="shop_routes")


@app.job("shop.bake")
async def bake(job: posthouse.Job, loaves: int) -> int:
    job.enqueue(sell)
    async with job.commit() as connection:
        await connection.execute("insert into shop.loaves select generate_series(1, %s)", (loaves,))


@app.job("shop.sell")
async def sell(job: posthouse.Job) -> str:
    if job.payload.get("stale"):
        raise posthouse.Fail("not wanted")
    return "sold"


@app.job("shop.wait")
async def wait() -> None:
    await asyncio.sleep(300)


async def slow(stage):
    await wait.using(correlation_id="long").enqueue()
    await stage.follow("long")


async def demo(stage):
    stage.say("opening the shop")
    stage.link("Loaves in the shop", "/apps/shop/")
    await bake.using(correlation_id="day").enqueue(loaves=stage.size or 3)
    stages = await stage.follow("day", kinds=["shop.bake", "shop.sell"], timeout=60)
    return {"sold": sum(found.succeeded for found in stages), "worker": bool(stage.worker_key)}


async def closed(stage):
    await sell.using(correlation_id="night").enqueue(stale=True)
    return {"stages": await stage.follow("night", timeout=60)}
"""
ROUTES = """
from typing import Annotated

from pathlib import Path

from fastapi import APIRouter

from posthouse.server import Access, Permission, allow, app_pages

router = APIRouter()
router.include_router(app_pages("shop", "Shop", Path(__file__).with_name("shop_page")))


@router.get("/shop/loaves")
async def loaves(access: Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)]) -> int:
    async with access.transaction() as db:
        return (await (await db.execute("select count(*) from shop.loaves")).fetchone())[0]
"""
SCHEMA = """
create schema if not exists shop;
create table if not exists shop.loaves (number integer not null);
grant usage on schema shop to posthouse_tenant;
grant select on shop.loaves to posthouse_tenant;
"""
METADATA = "Metadata-Version: 2.1\nName: shop\nVersion: 1\nSummary: Loaves that jobs bake and sell.\n"
PAGE = """
import { site, useApi } from "posthouse/api.js"
import { startApp } from "posthouse/app.js"
import { html } from "posthouse/lib.js"

function Loaves() {
  const { data } = useApi(site("/shop/loaves"))
  return html`<p>${data} loaves</p>`
}

startApp({ name: "Shop", routes: [{ pattern: "", page: Loaves, title: "Loaves" }] })
"""
POINTS = """
[posthouse.apps]
shop = shop:app
closed = shop:app
slow = shop:app
[posthouse.demos]
shop = shop:demo
closed = shop:closed
slow = shop:slow
"""


@pytest.fixture
def shop(tmp_path, posthouse):
    """A package as pip leaves it: modules, and a list of entry points."""
    folder = tmp_path / "site"
    (folder / "shop-1.dist-info").mkdir(parents=True)
    (folder / "shop-1.dist-info" / "METADATA").write_text(METADATA)
    (folder / "shop-1.dist-info" / "entry_points.txt").write_text(POINTS)
    (folder / "shop.py").write_text(APP)
    (folder / "shop_routes.py").write_text(ROUTES)
    (folder / "schema.sql").write_text(SCHEMA)
    (folder / "shop_page").mkdir()
    (folder / "shop_page" / "main.js").write_text(PAGE)
    posthouse.env["PYTHONPATH"] = f"{folder}:{posthouse.env.get('PYTHONPATH', '')}"
    return folder
