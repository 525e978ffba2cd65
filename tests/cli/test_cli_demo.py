"""Applications with tables, routes and a demo of their own, as an installed package offers them."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import psycopg
import pytest

from waiting import eventually_sync as eventually

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
    await bake.using(correlation_id="day").enqueue(loaves=stage.size or 3)
    stages = await stage.follow("day", kinds=["shop.bake", "shop.sell"], timeout=60)
    return {"sold": sum(found.succeeded for found in stages), "worker": bool(stage.worker_key)}


async def closed(stage):
    await sell.using(correlation_id="night").enqueue(stale=True)
    return {"stages": await stage.follow("night", timeout=60)}
"""
ROUTES = """
from typing import Annotated

from fastapi import APIRouter

from posthouse.server import Access, Permission, allow

router = APIRouter()


@router.get("/shop/loaves")
async def loaves(access: Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]) -> int:
    async with access.session() as db:
        return (await (await db.execute("select count(*) from shop.loaves")).fetchone())[0]
"""
SCHEMA = """
create schema if not exists shop;
create table if not exists shop.loaves (number integer not null);
grant usage on schema shop to posthouse_tenant;
grant select on shop.loaves to posthouse_tenant;
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
    (folder / "shop-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1\n")
    (folder / "shop-1.dist-info" / "entry_points.txt").write_text(POINTS)
    (folder / "shop.py").write_text(APP)
    (folder / "shop_routes.py").write_text(ROUTES)
    (folder / "schema.sql").write_text(SCHEMA)
    posthouse.env["PYTHONPATH"] = f"{folder}:{posthouse.env.get('PYTHONPATH', '')}"
    return folder


def test_a_demo_runs_its_application_and_prints_what_it_found(shop, posthouse, db):
    done = posthouse("demo", "shop", "--size", "5", "--json")
    assert done.code == 0, done.err
    assert done.json == {"sold": 2, "worker": True}
    assert "opening the shop" in done.err
    assert "shop.bake: 1 of 1" in done.err
    assert db.execute("select count(*) from shop.loaves").fetchone() == (5,)
    assert db.execute("select count(*) from posthouse.keys where revoked_at is null").fetchone() == (0,)


def test_a_demo_uses_a_configured_redis(shop, posthouse, redis_server):
    posthouse.env["POSTHOUSE_REDIS_URL"] = redis_server.url
    done = posthouse("demo", "shop", "--size", "1", "--json")
    assert done.code == 0, done.err
    assert "jobs are dispatched through Redis (mode hybrid)" in done.err
    with redis_server.client() as client:
        assert list(client.scan_iter("{posthouse}:*")), "streams with hints"


def test_a_demo_whose_jobs_fail_says_so(shop, posthouse):
    done = posthouse("demo", "closed")
    assert done.code == 1
    assert "1 shop.sell job did not succeed" in done.err


def test_demos_are_listed_and_a_wrong_name_is_answered_with_them(shop, posthouse):
    assert {"crash", "shop", "closed"} <= set(posthouse("demo", "--json").json)
    wrong = posthouse("demo", "bakery")
    assert wrong.code == 2
    assert "demo 'bakery' does not exist" in wrong.err
    assert "shop" in wrong.err


def test_up_serves_the_routes_of_an_app_beside_the_api_to_those_who_may_use_them(shop, posthouse, db):
    up = posthouse.start("up", "--port", "0", "--app", "shop:app")
    url = up.line().partition("ready: ")[2]
    key = up.line().partition(": ")[2]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/shop/loaves", timeout=10)
    assert refused.value.code == 401
    refused.value.close()
    asked = urllib.request.Request(f"{url}/shop/loaves", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        assert json.loads(answer.read()) == 0


def test_a_schema_is_run_again_only_when_it_has_changed(shop, posthouse, db):
    posthouse("migrate", "--app", "shop:app")
    before = db.execute("select digest, applied_at from posthouse.app_schemas").fetchall()
    posthouse("migrate", "--app", "shop:app")
    assert db.execute("select digest, applied_at from posthouse.app_schemas").fetchall() == before
    (shop / "schema.sql").write_text(SCHEMA + "create table if not exists shop.cakes (number integer);")
    assert posthouse("migrate", "--app", "shop:app").code == 0
    assert db.execute("select count(*) from shop.cakes").fetchone() == (0,)


def test_an_app_whose_routes_name_no_permission_is_not_served(shop, posthouse):
    (shop / "shop_routes.py").write_text(
        "from fastapi import APIRouter\nrouter = APIRouter()\n"
        "@router.get('/shop/open')\nasync def public() -> int:\n    return 1\n"
    )
    refused = posthouse("server", "--port", "0", "--app", "shop:app")
    assert refused.code == 1
    assert "/shop/open declares no permission" in refused.err


def test_a_schema_that_fails_leaves_nothing_behind_and_says_why(shop, posthouse, db):
    (shop / "schema.sql").write_text("create schema shop; create table shop.loaves (number nonsense);")
    failed = posthouse("migrate", "--app", "shop:app")
    assert failed.code == 1
    assert '/schema.sql failed: type "nonsense" does not exist' in failed.err
    assert "Traceback" not in failed.err
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute("select from shop.loaves")


def test_up_leaves_out_an_installed_app_whose_tables_cannot_be_made_and_says_so(shop, posthouse, db):
    (shop / "schema.sql").write_text("create schema shop; create table shop.loaves (number nonsense);")
    up = posthouse.start("up", "--port", "0", POSTHOUSE_PROCESS_SLOTS="1")
    assert "Posthouse is ready" in up.line()
    assert "skipped the application shop:app" in up.err
    assert db.execute("select count(*) from posthouse.definitions where key like 'shop.%'").fetchone() == (0,)
    assert up.stop() == 0


def test_a_folder_of_the_same_name_does_not_hide_an_application(tmp_path):
    """As in the home of a user whose pictures are in ``photos``."""
    names = ["calls", "embeddings", "photos", "vision", "vlog"]
    for name in names:
        (tmp_path / name).mkdir()
    look = (
        "from importlib.resources import files\n"
        f"print([name for name in {names} if (files(name) / 'schema.sql').is_file()])"
    )
    assert subprocess.check_output([sys.executable, "-c", look], cwd=tmp_path, text=True) == f"{names}\n"


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak), (signal.SIGINT, 130)]
)
def test_an_interrupted_demo_stops_its_workers_and_prints_no_traceback(shop, posthouse, db, number, code):
    demo = posthouse.start("demo", "slow")
    running = "select from posthouse.jobs where kind = 'shop.wait' and status = 'running'"
    eventually(lambda: db.execute(running).fetchone() is not None)
    assert demo.stop(number) == code
    assert "Traceback" not in demo.err
    assert db.execute("select from posthouse.workers where stopped_at is null").fetchone() is None
    assert db.execute("select from posthouse.keys where revoked_at is null").fetchone() is None
    # Released, not failed: the job waits for the next worker with all its attempts.
    status = "select status, attempt_count from posthouse.jobs where kind = 'shop.wait'"
    assert db.execute(status).fetchone()[0] == "queued"


def test_a_demo_stays_up_until_it_is_told_to_stop(shop, posthouse, db):
    demo = posthouse.start("demo", "shop", "--serve", "--json")
    eventually(lambda: "Press Ctrl-C to stop." in demo.err)
    address = re.search(r"Console: (http://\S+)/console/#ticket=once_\S+", demo.err)[1]
    assert urllib.request.urlopen(f"{address}/health").status == 200
    assert db.execute("select count(*) from posthouse.workers where stopped_at is null").fetchone() == (1,)
    assert demo.stop(signal.SIGINT) == 0
    assert "Traceback" not in demo.err
    assert db.execute("select from posthouse.workers where stopped_at is null").fetchone() is None


def test_the_crash_demo_cannot_stay_up(posthouse):
    refused = posthouse("demo", "crash", "--serve")
    assert (refused.code, "deletes its Postgres" in refused.err) == (2, True)
