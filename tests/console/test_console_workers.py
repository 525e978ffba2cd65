"""Workers: what runs in their slots, steering them, and the keys of remote ones."""

from uuid import uuid4

import httpx
import psycopg
from playwright.async_api import expect

from support.accessibility import MARKUP, accessibility_violations, has_markup


async def stranger(console, name, *, host="a-host"):
    """A worker that only says that it is there."""
    async with await psycopg.AsyncConnection.connect(console.settings.database_url, autocommit=True) as db:
        await db.execute(
            "insert into posthouse.workers"
            " (id, name, hostname, pid, version, queues, kinds, concurrency, started_at, heartbeat_at)"
            " values (%s, %s, %s, 7, '0', '{parcels}', '{}', 100, posthouse.now(),"
            " posthouse.now())",
            (uuid4(), name, host),
        )


def card(page, name):
    return page.get_by_role("article", name=f"Worker {name}", exact=True)


async def test_a_job_is_in_its_slot_for_as_long_as_it_runs(open_page, console):
    async with open_page("workers") as page:
        await expect(page.get_by_text("live", exact=True)).to_be_visible()
        job_id = await console.enqueue("demo.wait", {"gate": "slot"})
        slot = page.get_by_role("link", name=f"demo.wait, job {job_id}")
        await expect(slot).to_be_visible()
        console.gate("slot").set()
        await expect(slot).to_have_count(0)


async def test_a_worker_is_disabled_and_the_undo_enables_it(open_page, console):
    await stranger(console, "postilion")
    async with open_page("workers?q=postilion") as page:
        worker = card(page, "postilion")
        await worker.get_by_role("button", name="Disable").click()
        await page.get_by_role("dialog").get_by_role("button", name="Disable worker").click()
        await expect(worker.get_by_text("disabled", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(worker.get_by_text("idle", exact=True)).to_be_visible()
        await worker.get_by_role("button", name="Drain").click()
        await page.get_by_role("dialog").get_by_role("button", name="Drain worker").click()
        await expect(worker.get_by_text("draining", exact=True)).to_be_visible()


async def test_a_silent_worker_stands_out(open_page, console):
    """The answer is changed on its way: the keeper would not leave a silent worker there for long."""
    await stranger(console, "sleeper")

    async def silence(route):
        found = await (await route.fetch()).json()
        for worker in found:
            worker["heartbeat_seconds"] = 9.0 if worker["name"] == "sleeper" else 0.1
        await route.fulfill(json=found)

    async with open_page("workers", before={"**/admin/workers?*": silence}) as page:
        await expect(card(page, "sleeper")).to_contain_text("no heartbeat for")
        await expect(page.locator(".worker").filter(has_text="no heartbeat for")).to_have_count(1)


async def test_a_worker_is_registered_with_a_key_that_ends_when_revoked(open_page, console):
    async with open_page("workers") as page:
        await page.get_by_role("button", name="Register worker").click()
        await page.get_by_label("Name").fill("gpu-boxes")
        await page.get_by_label("Queues").fill("video, stills")
        await page.get_by_label("May announce definitions").check()
        await page.get_by_role("button", name="Create key").click()
        shown = page.get_by_role("dialog")
        await expect(shown).to_contain_text(f"posthouse worker --remote {console.url} --app")
        key = (await shown.locator("code").first.inner_text()).strip()
        assert await registers(console, key)
        [kept] = [item for item in await console.api("GET", "/admin/keys") if item["name"] == "gpu-boxes"]
        assert kept["may_announce"] is True
        await shown.get_by_role("button", name="Close").last.click()
        line = page.get_by_role("row").filter(has_text="gpu-boxes")
        await expect(line).to_contain_text("stills")
        await line.get_by_role("button", name="Revoke").click()
        await page.get_by_role("button", name="Revoke key").click()
        await expect(line).to_contain_text("revoked")
        assert not await registers(console, key)
        assert key not in await page.content()


async def registers(console, key):
    async with httpx.AsyncClient(base_url=console.url, headers={"Authorization": f"Bearer {key}"}) as client:
        return (await client.get("/api/v1/session")).status_code == 200


async def test_tenants_see_that_workers_are_there_and_no_more(open_page, console):
    await stranger(console, "coachman", host="secret-host")
    async with open_page("workers", role="tenant-viewer", tenant="rider") as page:
        of_parcels = page.get_by_role("row").filter(has_text="parcels")
        await expect(of_parcels.filter(has_text="online").first).to_be_visible()
        assert "secret-host" not in await page.content()
        assert await page.get_by_role("button", name="Drain").count() == 0


async def test_a_name_is_text_and_never_markup(open_page, console):
    await stranger(console, MARKUP, host=MARKUP)
    async with open_page("workers") as page:
        await expect(card(page, MARKUP)).to_be_visible()
        assert not await has_markup(page)


async def test_the_workers_page_is_accessible(open_page, console):
    await stranger(console, "reader")
    await console.api("POST", "/admin/keys", {"name": "reading", "role": "worker"})
    async with open_page("workers") as page:
        await expect(card(page, "reader")).to_be_visible()
        assert await accessibility_violations(page) == []
        await page.goto(f"{console.url}/console/workers?show=keys")
        await expect(page.get_by_role("row").filter(has_text="reading")).to_be_visible()
        assert await accessibility_violations(page) == []
