"""The operator's page: tenants, keys that are shown once, what is on record, the doctor, settings."""

import re

import httpx
from playwright.async_api import expect

from support.accessibility import accessibility_violations

INERT = "<img src=x onerror=alert(1)>"


async def test_a_tenant_is_created_changed_back_and_deleted(open_page):
    async with open_page("operator/tenants") as page:
        await page.get_by_role("button", name="New tenant").click()
        await page.get_by_label("Id").fill("globex")
        await page.get_by_label("Label").fill(INERT)
        await page.get_by_role("button", name="Create").click()
        row = page.get_by_role("row").filter(has_text="globex")
        await expect(row).to_contain_text(INERT)
        await page.get_by_role("button", name="Edit globex").click()
        await page.get_by_label("Weight").fill("2.5")
        await page.get_by_label("Retention in days").fill("90")
        await page.get_by_role("button", name="Save").click()
        await expect(row).to_contain_text("90 days")
        await page.get_by_role("button", name="Undo").click()
        await expect(row).to_contain_text("default")
        await page.get_by_role("button", name="Delete globex").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(row).to_have_count(0)


async def test_tenants_stand_side_by_side_and_one_is_looked_at_alone(open_page, console):
    job = await console.enqueue("demo.wait", {"gate": "busy"}, tenant="busy")
    await console.until(job, "running")
    async with open_page("operator/tenants") as page:
        row = page.get_by_role("row").filter(has_text="busy")
        await expect(row.get_by_role("cell").nth(2)).to_have_text("1")
        await row.get_by_role("button", name="busy", exact=True).click()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await expect(page.get_by_label("Tenant")).to_have_value("busy")
    console.gate("busy").set()


async def test_a_key_is_shown_once_works_and_is_revoked(open_page, console):
    async with open_page("operator/keys") as page:
        await page.get_by_role("button", name="New key").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill(f"shop {INERT}")
        announce = dialog.get_by_label("May announce definitions")
        await expect(announce).to_have_count(0)
        await dialog.get_by_label("Role").select_option("worker")
        await expect(announce).to_be_visible()
        await dialog.get_by_label("Tenant").select_option("default")
        await expect(announce).to_have_count(0)
        await dialog.get_by_label("Tenant").select_option("")
        await dialog.get_by_label("Role").select_option("event-emitter")
        await expect(dialog.get_by_role("button", name="Create")).to_be_disabled()
        await dialog.get_by_label("Tenant").select_option("default")
        await dialog.get_by_role("button", name="Create").click()
        await expect(dialog.get_by_text("is shown only once")).to_be_visible()
        text = await dialog.locator("code").first.inner_text()
        assert await works(console, text)
        await dialog.get_by_role("button", name="Close").last.click()
        await expect(page.get_by_text(text)).to_have_count(0)
        await page.get_by_role("button", name=f"Revoke shop {INERT}").click()
        await dialog.get_by_role("button", name="Revoke").click()
        await expect(page.get_by_role("button", name=f"Revoke shop {INERT}")).to_have_count(0)
        assert not await works(console, text)
        await page.get_by_role("link", name="expired or revoked key").click()
        await expect(page.get_by_role("row").filter(has_text="shop")).to_contain_text("revoked")
        assert await page.locator("img").count() == 0


async def works(console, key):
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=console.url, headers=headers) as client:
        answer = await client.post("/api/v1/events", json={"event_name": "tried"})
    return answer.status_code == 202


async def test_the_audit_is_filtered_and_shows_before_and_after(open_page, console):
    await console.api("POST", "/admin/tenants", {"id": "noted", "label": "old name"})
    await console.api("PATCH", "/admin/tenants/noted", {"label": INERT})
    async with open_page("operator/audit") as page:
        await page.get_by_placeholder("Action").fill("tenant.label")
        await page.get_by_placeholder("Target").fill("noted")
        entries = page.get_by_role("list", name="Audit log").get_by_role("listitem")
        changed = entries.filter(has_text="1 field").first
        await expect(changed).to_be_visible()
        await expect(page).to_have_url(re.compile("action=tenant.label&target=noted"))
        await changed.get_by_role("button", name="1 field").click()
        await expect(changed.locator("ins")).to_have_text(INERT)
        await expect(changed.locator("del")).to_have_text("old name")
        assert await page.locator("img").count() == 0


async def test_the_doctor_settings_retention_and_alerts(open_page, console):
    job = await console.enqueue("demo.fail", {"item": INERT}, tenant="unlucky")
    await console.until(job, "dead_letter")
    async with open_page("operator") as page:
        await page.get_by_role("link", name="Doctor").click()
        await expect(page.get_by_text("passed check")).to_be_visible()
        await page.get_by_role("link", name="Settings").click()
        await page.get_by_placeholder("Search settings").fill("heartbeat_seconds")
        await expect(page.locator("tr[data-key=heartbeat_seconds]")).to_contain_text("0.5")
        await page.get_by_role("link", name="Retention").click()
        await expect(page.get_by_role("row").filter(has_text="history")).to_contain_text("30 d")
        await page.get_by_role("link", name="Alerts").click()
        await page.get_by_label("Type").select_option("job_max_retries_exceeded")
        await expect(page.get_by_role("row").filter(has_text="unlucky").first).to_be_visible()


async def test_a_pause_in_typing_takes_nothing_from_a_search_field(open_page):
    async with open_page("operator/settings") as page:
        box = page.get_by_placeholder("Search settings")
        await box.press_sequentially("lease ")
        await expect(page).to_have_url(re.compile("q=lease"))
        await box.press_sequentially("seconds")
        await expect(page).to_have_url(re.compile("q=lease.seconds"))
        await expect(box).to_have_value("lease seconds")


async def test_a_tenant_admin_sees_only_its_own_keys_and_audit_entries_and_a_viewer_neither(
    open_page, console
):
    async with open_page("operator", role="tenant-admin", tenant="owned") as page:
        tabs = page.get_by_role("navigation", name="Operator")
        await expect(tabs.get_by_role("link")).to_have_text(["Keys", "Audit log", "Alerts"])
        await page.get_by_role("button", name="New key").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_label("Tenant")).to_have_count(0)
        roles = await dialog.get_by_label("Role").locator("option").all_inner_texts()
        assert "super admin" not in roles
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
    async with open_page("", role="tenant-viewer", tenant="owned") as page:
        await expect(page.get_by_role("link", name="Overview")).to_be_visible()
        await expect(page.get_by_role("link", name="Operator")).to_have_count(0)


async def test_the_operators_page_is_accessible_and_fits_a_phone(open_page, console):
    """On few rows: they are all of one form, and the check takes seconds for hundreds."""
    await console.api("POST", "/admin/tenants", {"id": "checked", "label": "Checked"})
    async with open_page("operator/audit?target=checked", width=390) as page:
        await expect(page.get_by_role("list", name="Audit log")).to_be_visible()
        assert await accessibility_violations(page) == []
        for tab in ("Tenants", "Keys", "Doctor", "Settings"):
            await page.get_by_role("link", name=tab, exact=True).click()
            if tab == "Settings":
                await page.get_by_placeholder("Search settings").fill("heartbeat")
            await expect(page.locator(".skeleton")).to_have_count(0)
            assert await accessibility_violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390
