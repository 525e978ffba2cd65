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

from fixtures.shop_package import SCHEMA
from support.waiting import eventually_sync


def test_a_demo_runs_its_application_and_prints_what_it_found(shop, posthouse, db):
    done = posthouse("demo", "shop", "--size", "5", "--json")
    assert done.code == 0, done.err
    assert done.json == {"sold": 2, "worker": True}
    assert "opening the shop" in done.err
    assert "shop.bake: 1 of 1" in done.err
    assert "http://127.0.0.1:8765/apps/shop/" in done.err
    assert "demo shop --serve" in done.err
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
    eventually_sync(lambda: db.execute(running).fetchone() is not None)
    second = posthouse("demo", "slow")
    assert (second.code, "the demo 'slow' is already running" in second.err) == (1, True)
    assert demo.stop(number) == code
    assert "Traceback" not in demo.err
    assert db.execute("select from posthouse.workers where stopped_at is null").fetchone() is None
    assert db.execute("select from posthouse.keys where revoked_at is null").fetchone() is None
    # Released, not failed: the job waits for the next worker with all its attempts.
    status = "select status, attempt_count from posthouse.jobs where kind = 'shop.wait'"
    assert db.execute(status).fetchone()[0] == "queued"


def test_a_demo_stays_up_until_it_is_told_to_stop(shop, posthouse, db):
    demo = posthouse.start("demo", "shop", "--serve", "--json")
    eventually_sync(lambda: "Press Ctrl-C to stop." in demo.err)
    address = re.search(r"Console: (http://\S+)/console/#ticket=once_\S+", demo.err)[1]
    assert re.search(rf"Loaves in the shop: {address}/apps/shop/#ticket=once_\S+", demo.err)
    assert urllib.request.urlopen(f"{address}/health").status == 200
    assert db.execute("select count(*) from posthouse.workers where stopped_at is null").fetchone() == (1,)
    assert demo.stop(signal.SIGINT) == 0
    assert "Traceback" not in demo.err
    assert db.execute("select from posthouse.workers where stopped_at is null").fetchone() is None


def test_the_crash_demo_cannot_stay_up(posthouse):
    refused = posthouse("demo", "crash", "--serve")
    assert (refused.code, "deletes its Postgres" in refused.err) == (2, True)
