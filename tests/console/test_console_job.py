"""The page of a job: what it does now, how it got here, what it said, what it led to."""

import asyncio
import json
import shlex

import httpx
from playwright.async_api import expect

from support.accessibility import EVERYTHING, accessibility_violations
from support.waiting import WAIT_SECONDS

EVIL = "<img src=x onerror=\"document.title='owned'\">"


async def copied(page, part):
    """Return the text in the clipboard when this part is in it: a click does not wait for the copy."""
    async with asyncio.timeout(WAIT_SECONDS):
        while part not in (text := await page.evaluate("navigator.clipboard.readText()")):
            await asyncio.sleep(0.05)
    return text


async def test_a_running_job_is_watched_to_its_end_and_nothing_moves(open_page, console):
    job = await console.enqueue("demo.wait", {"gate": "watched"}, subject="mail to Vienna")
    await console.until(job, "running")
    async with open_page(f"jobs/{job}") as page:
        head = page.get_by_role("region", name="Job", exact=True)
        await expect(head).to_contain_text("demo.wait")
        await expect(head.locator(".status")).to_have_text("running")
        await expect(page.get_by_text("halfway")).to_be_visible()
        await expect(page.get_by_role("progressbar", name="Progress of first half")).to_have_attribute(
            "aria-valuenow", "40"
        )
        await expect(page.get_by_role("log")).to_contain_text("started waiting")
        await expect(page.get_by_role("img", name="attempt 1 running")).to_be_visible()
        await expect(page.get_by_text("live", exact=True)).to_be_visible()
        log = page.get_by_role("heading", name="Log")
        before = (await log.bounding_box())["y"]
        console.gate("watched").set()
        await expect(head.locator(".status")).to_have_text("succeeded")
        await expect(page.get_by_role("group", name="result")).to_contain_text('"done"')
        await expect(page.get_by_role("log")).to_contain_text("done")
        await expect(page.get_by_role("img", name="attempt 1 succeeded")).to_be_visible()
        await expect(page.get_by_role("button", name="Retry", exact=True)).to_be_disabled()
        assert (await log.bounding_box())["y"] == before
        assert "demo.wait" in await page.title()


async def test_a_job_that_waits_says_why_and_who_is_before_it(open_page, console):
    first = await console.enqueue("demo.limited", {"gate": "bar"})
    await console.until(first, "running")
    second = await console.enqueue("demo.limited", {"gate": "bar"})
    async with open_page(f"jobs/{second}") as page:
        await expect(
            page.get_by_text("Limit 'demo-limit' is full: 1 of 1 running", exact=True)
        ).to_be_visible()
        await expect(page.get_by_text("posthouse limits set demo-limit")).to_be_visible()
        await expect(page.get_by_role("img", name="limit,")).to_be_visible()
        holder = page.get_by_role("list", name="Jobs using limit demo-limit").get_by_role("link")
        await holder.click()
        await expect(page).to_have_url(f"{console.url}/console/jobs/{first}")
        await expect(page.get_by_text("demo.limited").first).to_be_visible()
        await page.go_back()
        await expect(page.get_by_role("heading", name="Why this job is waiting")).to_be_visible()
        console.gate("bar").set()
        await expect(page.get_by_role("group", name="result")).to_have_text('"done"')
        await expect(page.get_by_role("heading", name="Why this job is waiting")).to_have_count(0)


async def test_a_failed_job_shows_its_error_first_and_its_attempts_side_by_side(open_page, console):
    job = await console.enqueue("demo.two_failures", {"service": EVIL})
    await console.until(job, "dead_letter")
    async with open_page(f"jobs/{job}") as page:
        await expect(page.get_by_role("heading", name="Dead letter after 2 attempts")).to_be_visible()
        await expect(page.get_by_text(f"{EVIL} is down").first).to_be_visible()
        left = page.get_by_role("region", name="Attempt 1")
        right = page.get_by_role("region", name="Attempt 2")
        await expect(left).to_contain_text("TimeoutError")
        await expect(left).to_contain_text("no response")
        await expect(right).to_contain_text("ConnectionError")
        await right.get_by_text("Traceback console.py").click()
        await right.get_by_role("button", name="Copy traceback").click()
        await copied(page, "in two_failures")
        await expect(page.get_by_role("log")).to_contain_text(f"request to {EVIL}, try 2")
        await expect(page.get_by_role("group", name="payload")).to_contain_text("<img src=x")
        assert await page.locator("main img").count() == 0
        assert await page.title() == "dead letter demo.two_failures · Posthouse"


async def test_retry_and_cancel_tell_what_they_did_and_can_be_taken_back(open_page, console):
    failed = await console.enqueue("demo.fail", {"item": "a"})
    await console.until(failed, "dead_letter")
    later = await console.enqueue("demo.greet", delay_seconds=3600)
    async with open_page(f"jobs/{failed}") as page:
        await page.get_by_role("button", name="Retry", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("Retrying the job")
        await expect(page.get_by_text("run 2", exact=True)).to_be_visible()
    async with open_page(f"jobs/{later}") as page:
        status = page.get_by_role("region", name="Job", exact=True).locator(".status")
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await expect(status).to_have_text("canceled")
        await page.get_by_role("button", name="Undo").click()
        await expect(status).to_have_text("succeeded")


async def test_a_running_job_is_asked_about_before_it_is_canceled(open_page, console):
    job = await console.enqueue("demo.wait", {"gate": "never"})
    await console.until(job, "running")
    async with open_page(f"jobs/{job}") as page:
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await page.get_by_role("button", name="Cancel job").click()
        status = page.get_by_role("region", name="Job", exact=True).locator(".status")
        await expect(status).to_have_text("canceled")


async def test_it_runs_again_with_another_payload(open_page, console):
    job = await console.enqueue("demo.greet", {"name": "Ada"})
    await console.until(job, "succeeded")
    async with open_page(f"jobs/{job}") as page:
        await page.get_by_role("button", name="Run again").click()
        await page.get_by_label("name").fill("Grace")
        await page.get_by_role("dialog").get_by_role("button", name="Enqueue").click()
        await expect(page.get_by_role("group", name="result")).to_have_text('"Hello Grace"')
        assert job not in page.url


async def test_copies_enqueue_the_same(open_page, console, monkeypatch):
    job = await console.enqueue("demo.greet", {"name": "O'Neill $HOME", "times": 2}, subject="copies")
    await console.until(job, "succeeded")
    async with open_page(f"jobs/{job}") as page:
        await page.get_by_role("button", name="Copy as curl").click()
        command = shlex.split(await copied(page, "curl "))
        await page.get_by_role("button", name="Copy as Python").click()
        program = await copied(page, "import ")
    monkeypatch.setenv("POSTHOUSE_DATABASE_URL", console.settings.database_url)
    said = []
    await asyncio.to_thread(exec, program, {"print": said.append})
    url, body = command[2], json.loads(command[-1])
    headers = {"Authorization": f"Bearer {await console.key('super-admin')}"}
    async with httpx.AsyncClient(headers=headers) as client:
        by_curl = (await client.post(url, json=body)).raise_for_status().json()["id"]
    for copy in (str(said[0]), by_curl):
        found = await console.until(copy, "succeeded")
        assert (found["result"], found["subject"]) == ("Hello O'Neill $HOME, Hello O'Neill $HOME", "copies")


async def test_the_log_is_searched_followed_and_downloaded(open_page, console):
    job = await console.enqueue("demo.log", {"lines": 1200, "gate": "told"})
    await console.until(job, "running")
    async with open_page(f"jobs/{job}") as page:
        log = page.get_by_role("log")
        await expect(log).to_contain_text("line 1199")
        follow = page.get_by_label("Follow")
        await expect(follow).to_be_checked()
        await log.evaluate("box => { box.scrollTop = 0 }")
        await expect(follow).not_to_be_checked()
        await page.get_by_role("button", name="Show earlier lines").click()
        await expect(log).to_contain_text("line 0")
        await page.keyboard.press("/")
        await page.keyboard.type("line 77")
        await expect(page.get_by_text("11 of 1,200 lines")).to_be_visible()
        await expect(log.locator("mark")).to_have_count(11)
        await page.get_by_label("Search log").fill("")
        await follow.check()
        console.gate("told").set()
        await expect(log.get_by_text("the last line")).to_be_in_viewport()
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Download log").click()
        text = (await (await download.value).path()).read_text()
        assert text.count("\n") == 1201
        async with page.expect_download() as download:
            await page.get_by_role("link", name="output/report.txt").click()
        assert (await (await download.value).path()).read_text() == "report"


async def test_the_runs_of_a_job_that_snoozes_are_one_row(open_page, console):
    job = await console.enqueue("demo.snooze", {"snoozes": 3})
    await console.until(job, "succeeded")
    async with open_page(f"jobs/{job}") as page:
        timeline = page.get_by_role("group", name="Job timeline")
        await expect(timeline.get_by_role("button")).to_have_text(["Attempt 1, 3 snoozes"])
        await expect(timeline.get_by_role("img", name="snoozed")).to_have_count(6)  # runs, and waits between


async def test_the_pipeline_is_a_graph_and_on_a_phone_a_list(open_page, console):
    job = await console.enqueue("demo.chain")
    async with open_page(f"jobs/{job}") as page:
        graph = graph_of(page)
        await expect(graph.get_by_role("link")).to_have_count(3)
        await expect(graph.get_by_text("succeeded")).to_have_count(3)
        await expect(graph.locator("path")).to_have_count(2)
        own = graph.locator("[aria-current=true]")
        await expect(own).to_have_attribute("href", f"/console/jobs/{job}")
        timeline = page.get_by_role("group", name="Job timeline")
        await expect(timeline.get_by_role("link")).to_have_count(1)
        await graph.get_by_role("link").nth(2).click()
        await expect(page.get_by_role("group", name="result")).to_have_text('"finished step 3"')
    async with open_page(f"jobs/{job}", width=390) as page:
        await expect(graph_of(page).get_by_role("link")).to_have_count(3)
        await expect(graph_of(page).locator("svg")).to_be_hidden()
        # Not at once: the parts of the page arrive one after the other. The page's policy forbids the eval of
        # Playwright's wait_for_function.
        async with asyncio.timeout(WAIT_SECONDS):
            while await page.evaluate("document.documentElement.scrollWidth") != 390:
                await asyncio.sleep(0.05)


def graph_of(page):
    return page.get_by_role("region", name="Pipeline graph")


async def test_who_may_only_look_has_no_buttons(open_page, console):
    job = await console.enqueue("demo.greet", tenant="default")
    await console.until(job, "succeeded")
    async with open_page(f"jobs/{job}", role="tenant-viewer", tenant="default") as page:
        await expect(page.get_by_role("group", name="result")).to_be_visible()
        for name in ("Retry", "Run again", "Cancel"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)


async def test_a_job_that_is_not_there_is_a_clear_page(open_page):
    async with open_page("jobs/01a1e45d-bbe7-7f21-b08a-6ef38a744c50", refused=[404]) as page:
        await expect(page.get_by_role("heading", name="Job not found")).to_be_visible()
        await expect(page.get_by_role("link", name="All jobs")).to_be_visible()


async def test_the_job_page_is_accessible(open_page, console):
    failed = await console.enqueue("demo.two_failures", {"service": "the Elbe"})
    running = await console.enqueue("demo.wait", {"gate": "axe"})
    await console.until(failed, "dead_letter")
    await console.until(running, "running")
    async with open_page(f"jobs/{failed}") as page:
        for job in (failed, running):
            await page.goto(f"{console.url}/console/jobs/{job}")
            await expect(page.get_by_role("heading", name="Details")).to_be_visible()
            await expect(page.get_by_role("img", name="attempt 1")).to_be_visible()
            assert await accessibility_violations(page, EVERYTHING) == []
    console.gate("axe").set()
