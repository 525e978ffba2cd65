"""Failures: one line for each fault, and its jobs run again."""

import re

from playwright.async_api import expect

from support.accessibility import MARKUP, accessibility_violations, has_markup


async def fail(console, times, *, gate="closed", text="the gate is closed", tenant="default"):
    ids = [
        await console.enqueue("demo.gated_failure", {"gate": gate, "text": text}, tenant=tenant)
        for _ in range(times)
    ]
    return [await console.until(job_id, "dead_letter") for job_id in ids]


async def failure_group(console, tenant):
    (group,) = (await console.api("GET", f"/failures?tenant={tenant}"))["items"]
    return f"failures/{group['fingerprint']}?kind={group['definition_key']}&tenant={tenant}"


async def test_all_jobs_of_a_fault_are_retried_and_watched(open_page, console):
    await fail(console, 3, gate="ebb", tenant="ferry")
    async with open_page("failures?kind=demo.gated_failure") as page:
        line = page.get_by_role("row").filter(has_text="ferry")
        await line.get_by_role("link", name="ConnectionError").click()
        await expect(page.get_by_label("Traceback", exact=True)).to_contain_text("in gated_failure")
        await page.get_by_role("button", name="Retry all 3").click()
        question = page.get_by_role("dialog")
        await expect(question).to_contain_text("3 jobs will be retried, 10 per second")
        await question.get_by_label("Jobs per second").fill("50")
        await question.get_by_label("Stop automatically").select_option("never")
        await expect(question).to_contain_text("Continues even if every job fails again.")
        console.gate("ebb").set()
        await question.get_by_role("button", name="Retry 3 jobs").click()
        progress = page.get_by_label("Bulk retry")
        await expect(progress).to_contain_text("Starts in")
        await console.skip_undo_delay()
        await expect(progress).to_contain_text("Retried 3 of 3 jobs")
        await expect(progress).to_contain_text("3 succeeded")
        await expect(page.get_by_role("button", name="Nothing to retry")).to_be_disabled()


async def test_a_bulk_retry_is_stopped(open_page, console):
    await fail(console, 2, tenant="toll")
    async with open_page(await failure_group(console, "toll")) as page:
        await page.get_by_role("button", name="Retry all 2").click()
        await page.get_by_role("dialog").get_by_label("Jobs per second").fill("0.01")
        await page.get_by_role("button", name="Retry 2 jobs").click()
        progress = page.get_by_label("Bulk retry")
        await expect(progress).to_contain_text("Starts in")
        await console.skip_undo_delay()
        await expect(progress).to_contain_text("Retrying 2 jobs")
        await progress.get_by_role("button", name="Stop").click()
        await expect(progress).to_contain_text("stopped")
        await page.get_by_role("link", name="All failures").click()
        await page.get_by_role("link", name="Bulk retries").click()
        await expect(page.get_by_role("row").filter(has_text="tenant toll")).to_contain_text("stopped")


async def test_a_bulk_retry_is_undone_before_it_starts(open_page, console):
    (job,) = await fail(console, 1, tenant="regret")
    async with open_page(await failure_group(console, "regret")) as page:
        await page.get_by_role("button", name="Retry all 1").click()
        await page.get_by_role("button", name="Retry 1 job").click()
        await page.get_by_role("status").get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("Undone: no jobs were changed")).to_be_visible()
        await expect(page.get_by_label("Bulk retry")).to_contain_text("stopped")
    assert (await console.api("GET", f"/jobs/{job['id']}"))["generation"] == job["generation"]


async def test_the_address_says_which_failures_are_shown(open_page, console):
    await fail(console, 1, tenant="weir")
    async with open_page("failures") as page:
        await page.get_by_label("Kind").select_option("demo.gated_failure")
        await page.get_by_role("button", name="1h").click()
        await expect(page).to_have_url(
            re.compile("kind=demo.gated_failure.*since=1h|since=1h.*kind=demo.gated_failure")
        )
        await expect(page.get_by_role("row").filter(has_text="weir")).to_be_visible()
        await page.goto(page.url.replace("demo.gated_failure", "demo.greet"))
        await expect(page.get_by_text("No matching failures")).to_be_visible()


async def test_viewers_look_at_their_own_and_retry_nothing(open_page, console):
    await fail(console, 1, tenant="mill")
    await fail(console, 1, tenant="mine")
    async with open_page("failures", role="tenant-viewer", tenant="mill") as page:
        await page.get_by_role("link", name="ConnectionError").click()
        await expect(page.get_by_label("Traceback", exact=True)).to_be_visible()
        assert await page.get_by_role("button", name="Retry").count() == 0


async def test_an_error_is_text_and_never_markup(open_page, console):
    await fail(console, 1, text=MARKUP, tenant="inert")
    async with open_page("failures") as page:
        await expect(page.get_by_text(MARKUP).first).to_be_visible()
        await page.goto(f"{console.url}/console/{await failure_group(console, 'inert')}")
        await expect(page.get_by_label("Traceback", exact=True)).to_contain_text(MARKUP)
        assert not await has_markup(page)


async def test_the_failures_page_is_accessible(open_page, console):
    await fail(console, 1, tenant="shared")
    async with open_page("failures") as page:
        await expect(page.get_by_role("row").nth(1)).to_be_visible()
        assert await accessibility_violations(page) == []
        await page.goto(f"{console.url}/console/{await failure_group(console, 'shared')}")
        await page.get_by_role("button", name="Retry all").click()
        await expect(page.get_by_role("dialog")).to_contain_text("will be retried")
        assert await accessibility_violations(page) == []
