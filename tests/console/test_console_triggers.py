"""Triggers in the console: schedules with their next runs, templates tried on events, what came of them."""

import json

from playwright.async_api import expect

from support.accessibility import accessibility_violations

INERT = "<img src=x onerror=alert(1)>"


async def make(console, tenant="default", **fields):
    body = {"definition_key": "demo.greet", "payload_template": {"name": "Ada"}, **fields}
    return await console.api("POST", f"/jobs/triggers?tenant={tenant}", body)


async def emit(console, name, context, tenant="default", **fields):
    body = {"event_name": name, "context": context, **fields}
    return (await console.api("POST", f"/events?tenant={tenant}", body))["id"]


async def test_a_schedule_is_created_and_its_next_runs_are_seen_before_and_after(open_page):
    async with open_page("triggers", zone="Asia/Tokyo") as page:
        await page.get_by_role("link", name="New schedule").click()
        await page.get_by_label("Label").fill("Letters at nine")
        await page.get_by_label("Schedule").fill("0 25 * * *")
        await expect(page.get_by_text("hour: 25")).to_be_visible()
        await page.get_by_label("Schedule").fill("0 9 * * MON-FRI")
        await page.get_by_label("Time zone").fill("Europe/Paris")
        await expect(page.get_by_text("at 09:00 on Monday to Friday").first).to_be_visible()
        runs = page.get_by_label("Next runs").get_by_role("listitem")
        await expect(runs).to_have_count(6)
        await expect(runs.first).to_contain_text("09:00")
        await expect(runs.first).to_contain_text("your time")
        await page.get_by_label("Job kind").select_option("demo.greet")
        await page.get_by_label("name", exact=True).fill("{{sched")
        await page.get_by_role("option", name="schedule.date").click()
        await expect(page.get_by_label("name", exact=True)).to_have_value("{{schedule.date}}")
        await expect(page.get_by_label("payload", exact=True)).to_contain_text('"name": "20')
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name="Letters at nine")).to_be_visible()
        await expect(page.get_by_label("Next runs").get_by_role("listitem")).to_have_count(6)
        await page.get_by_role("link", name="Schedules").click()
        row = page.get_by_role("row").filter(has_text="Letters at nine")
        await expect(row).to_contain_text("at 09:00 on Monday to Friday, Europe/Paris")


async def test_clocks_that_change_are_told_of(open_page, console):
    made = await make(
        console, label="At the gap", trigger_type="schedule", cron_expr="30 2 8-14 3 SUN", timezone="UTC"
    )
    async with open_page(f"triggers/{made['id']}?edit=1", zone="America/New_York") as page:
        await page.get_by_label("Schedule").fill("30 2 * 3 SUN#2")
        await page.get_by_label("Time zone").fill("America/New_York")
        await expect(page.get_by_text("for 02:30, which clocks skip").first).to_be_visible()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status")).to_contain_text("Trigger “At the gap” saved")
        await expect(page.get_by_text("30 2 * 3 SUN#2")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("30 2 8-14 3 SUN")).to_be_visible()


async def test_a_template_is_tried_on_an_event_that_came_and_on_one_that_is_written(open_page, console):
    await emit(console, "rider.left", {"rider": {"name": INERT, "horses": 2}})
    async with open_page("triggers/new?type=event") as page:
        await page.get_by_label("Event", exact=True).fill("rider.*")
        await page.get_by_label("Job kind").select_option("demo.greet")
        await page.get_by_label("name", exact=True).press_sequentially("{{event.rider.n")
        await expect(page.get_by_role("option", name="event.rider.name")).to_be_visible()
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("payload", exact=True)).to_contain_text(INERT)
        await page.get_by_label("times").fill("{{event.rider.horses}}")
        await expect(page.get_by_label("payload", exact=True)).to_contain_text('"times": 2')
        await page.get_by_label("Sample event").select_option("own")
        await page.get_by_label("Event context").fill(json.dumps({"rider": {"name": "Grace", "horses": "x"}}))
        await expect(page.get_by_role("alert")).to_contain_text("times")
        await page.get_by_label("Event context").fill(json.dumps({"rider": {"name": "Grace", "horses": 1}}))
        await expect(page.get_by_label("payload", exact=True)).to_contain_text("Grace")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_text("on events like rider.*")).to_be_visible()


async def test_firing_by_hand_makes_a_job_and_pausing_can_be_undone(open_page, console):
    made = await make(console, label="By hand", trigger_type="schedule", cron_expr="0 3 * * *")
    async with open_page(f"triggers/{made['id']}") as page:
        await page.get_by_role("button", name="Fire now").click()
        await page.get_by_role("button", name="Fire", exact=True).click()
        outcome = page.get_by_role("list", name="Recent runs").get_by_role("listitem").first
        await expect(outcome).to_contain_text("fired")
        await expect(outcome).to_contain_text("succeeded")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_text("Paused. When resumed")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("status")).to_contain_text("Trigger “By hand” deleted")


async def test_an_event_of_someones_own_fires_a_trigger(open_page, console):
    made = await make(
        console, label="On arrival", trigger_type="event", event_name="rider.arrived",
        payload_template={"name": "{{event.who}}"},
    )  # fmt: skip
    async with open_page(f"triggers/{made['id']}") as page:
        await expect(page.get_by_text("No runs yet")).to_be_visible()
        await page.get_by_role("button", name="Fire now").click()
        await page.get_by_label("Sample event").select_option("own")
        await page.get_by_label("Event context").fill('{"who": "Linus"}')
        await expect(page.get_by_role("dialog").get_by_label("payload")).to_contain_text("Linus")
        await page.get_by_role("button", name="Fire", exact=True).click()
        await expect(page.get_by_role("list", name="Recent runs")).to_contain_text("rider.arrived")


async def test_recent_events_show_their_matches_and_can_be_replayed(open_page, console):
    label = f"Post {INERT}"
    await make(
        console, label=label, trigger_type="event", event_name="post.came",
        payload_template={"name": "{{event.from}}"},
    )  # fmt: skip
    event = await emit(console, "post.came", {"sender": INERT}, subject=INERT)
    async with open_page(f"triggers?tab=recent&name=post.came&event={event}") as page:
        await expect(page.get_by_text("event.from is missing")).to_be_visible()
        await expect(page.get_by_role("link", name=label)).to_be_visible()
        assert await page.locator("img").count() == 0
        await page.get_by_role("button", name="Replay").click()
        await expect(page.get_by_text("replay, ")).to_be_visible()
        assert await accessibility_violations(page) == []


async def test_a_trigger_from_code_says_so_and_is_not_deleted_here(open_page, console):
    await console.until_triggered()
    async with open_page("triggers") as page:
        row = page.get_by_role("row").filter(has_text="Nightly chain")
        await expect(row).to_contain_text("code")
        await row.get_by_role("link").click()
        await expect(page.get_by_text("last until the definition in code changes")).to_be_visible()
        await expect(page.get_by_role("button", name="Delete")).to_have_count(0)


async def test_a_viewer_sees_triggers_and_no_buttons(open_page, console):
    made = await make(
        console, tenant="viewed", label="Seen only", trigger_type="schedule", cron_expr="@daily"
    )
    async with open_page("triggers", role="tenant-viewer", tenant="viewed") as page:
        await expect(page.get_by_role("row").filter(has_text="Seen only")).to_contain_text("enabled")
        await expect(page.get_by_role("switch")).to_have_count(0)
        await expect(page.get_by_role("link", name="New schedule")).to_have_count(0)
        await page.goto(f"triggers/{made['id']}")
        await expect(page.get_by_role("heading", name="Seen only")).to_be_visible()
        await expect(page.get_by_role("button", name="Fire now")).to_have_count(0)


async def test_lists_and_forms_are_accessible_and_fit_a_phone(open_page, console):
    await make(console, label="Fits a phone", trigger_type="schedule", cron_expr="0 9 * * *")
    async with open_page("triggers", width=390) as page:
        await page.get_by_role("link", name="Fits a phone").click()
        await expect(page.get_by_label("Next runs")).to_be_visible()
        assert await accessibility_violations(page) == []
        await page.get_by_role("link", name="Edit").click()
        await expect(page.get_by_label("payload", exact=True)).to_be_visible()
        assert await accessibility_violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
