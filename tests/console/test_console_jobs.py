"""The page of all jobs: found by one line, followed live, and changed many at once."""

from playwright.async_api import expect

from support.accessibility import accessibility_violations

NASTY = "<img src=x onerror=document.title='owned'>"


def options(page):
    """What the box suggests."""
    return page.get_by_role("listbox", name="Suggestions")


def box(page):
    return page.get_by_role("combobox", name="Filter jobs")


def row(page, job_id):
    return page.locator(f'tr[data-key="{job_id}"]')


async def lost(console, subject, number=1, **options):
    """Jobs that failed for good."""
    ids = [
        await console.enqueue("demo.fail", {"item": str(n)}, subject=subject, **options)
        for n in range(number)
    ]
    for job_id in ids:
        await console.until(job_id, "dead_letter")
    return ids


async def later(console, subject, number):
    """Jobs that wait for their time."""
    job = {"definition_key": "demo.greet", "delay_seconds": 3600, "subject": subject}
    made = await console.api("POST", "/jobs/batch?tenant=default", {"jobs": [job] * number})
    return [item["id"] for item in made["items"]]


async def test_a_filter_completes_names_and_values_and_is_in_the_address(open_page, console):
    [wanted] = await lost(console, "completed")
    other = await console.enqueue("demo.greet", subject="completed")
    async with open_page("jobs") as page:
        await page.get_by_role("region", name="Jobs", exact=True).wait_for()
        await page.keyboard.press("/")
        await expect(box(page)).to_be_focused()
        await page.keyboard.type("subj")
        await expect(options(page).get_by_role("option", name="subject:")).to_be_visible()
        await page.keyboard.press("Tab")
        await expect(box(page)).to_have_value("subject:")
        await page.keyboard.type("comp")
        await expect(options(page).get_by_role("option", name="completed")).to_be_visible()
        await page.keyboard.press("ArrowDown")
        await expect(options(page).get_by_role("option", name="completed")).to_have_attribute(
            "aria-selected", "true"
        )
        await page.keyboard.press("Enter")
        await expect(row(page, other)).to_be_visible()
        await page.keyboard.type(" kind:demo.fa")
        await options(page).get_by_role("option", name="demo.fail").click()
        await expect(row(page, other)).to_have_count(0)
        await expect(row(page, wanted)).to_be_visible()
        await page.reload()
        await expect(box(page)).to_have_value("subject:completed kind:demo.fail")
        await expect(row(page, wanted)).to_contain_text("the service is down")
        await page.go_back()
        await expect(row(page, other)).to_be_visible()


async def test_a_suggestion_that_is_late_fits_what_was_typed_since(open_page, console):
    [job_id] = await lost(console, "belated")
    async with open_page("jobs", refused=["ERR_FAILED"]) as page:
        await box(page).fill("subject:bel")
        await expect(options(page).get_by_role("option", name="belated")).to_be_visible()
        await page.route("**/jobs/suggest*", lambda route: route.abort())
        await page.keyboard.type("at")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await expect(box(page)).to_have_value("subject:belated")
        await expect(row(page, job_id)).to_be_visible()


async def test_what_is_wrong_in_a_filter_is_marked_and_can_be_mended(open_page, console):
    [wanted] = await lost(console, "mended")
    async with open_page("jobs?q=subject:mended", refused=[422]) as page:
        await expect(row(page, wanted)).to_be_visible()
        await box(page).fill("subject:mended knd:demo.fail")
        await box(page).press("Enter")
        complaint = page.get_by_role("alert")
        await expect(complaint).to_contain_text("unknown field 'knd'")
        await expect(complaint.locator("mark")).to_have_text("knd")
        await complaint.get_by_role("button", name="Use kind").click()
        await expect(box(page)).to_have_value("subject:mended kind:demo.fail")
        await expect(complaint).to_have_count(0)
        await expect(row(page, wanted)).to_be_visible()


async def test_chips_narrow_to_a_status_and_say_how_many(open_page, console):
    await lost(console, "chips", 2)
    await console.until(await console.enqueue("demo.greet", subject="chips"), "succeeded")
    async with open_page("jobs?q=subject:chips") as page:
        chips = page.get_by_role("navigation", name="Jobs by status")
        await expect(chips.get_by_role("link", name="dead letter")).to_contain_text("2")
        await expect(chips.get_by_role("link", name="succeeded")).to_contain_text("1")
        await chips.get_by_role("link", name="dead letter").click()
        await expect(box(page)).to_have_value("subject:chips status:dead_letter")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await chips.get_by_role("link", name="All").click()
        await expect(page.locator("tbody tr")).to_have_count(3)


async def test_jobs_change_where_they_are_and_new_ones_are_announced(open_page, console):
    first = await console.enqueue("demo.wait", {"gate": "jobs-live"}, subject="live")
    await console.until(first, "running")
    async with open_page("jobs?q=subject:live+status:running,succeeded") as page:
        await expect(row(page, first)).to_contain_text("running")
        await expect(row(page, first).get_by_role("progressbar")).to_have_attribute("aria-valuenow", "50")
        second = await console.enqueue("demo.wait", {"gate": "jobs-live"}, subject="live")
        new = page.get_by_role("button", name="1 new")
        await expect(new).to_be_visible()
        await expect(row(page, second)).to_have_count(0)
        await new.click()
        await expect(row(page, second)).to_contain_text("running")
        console.gate("jobs-live").set()
        await expect(row(page, first)).to_contain_text("succeeded")
        await expect(row(page, second)).to_contain_text("succeeded")


async def test_a_job_that_starts_while_the_list_is_read_is_announced(open_page, console):
    """The filter leaves out its status in the answer; the event of its start comes before the answer."""
    first = await console.enqueue("demo.wait", {"gate": "jobs-first"}, subject="meanwhile")
    await console.until(first, "running")
    async with open_page("jobs?q=subject:meanwhile+status:running,succeeded") as page:
        await expect(row(page, first)).to_contain_text("running")
        second = await console.enqueue("demo.greet", subject="meanwhile", delay_seconds=2)

        async def answer_late(route):
            answer = await route.fetch()
            await console.until(second, "succeeded")
            console.gate("jobs-first").set()
            await expect(row(page, first)).to_contain_text("succeeded")  # the events have arrived
            await route.fulfill(response=answer)

        await page.route("**/api/v1/jobs?*", answer_late, times=1)
        await expect(page.get_by_role("button", name="1 new")).to_be_visible()


async def test_the_list_does_not_move_while_text_is_selected(open_page, console):
    ride = await console.enqueue("demo.wait", {"gate": "jobs-held"}, subject="held")
    await console.until(ride, "running")
    async with open_page("jobs?q=subject:held") as page:
        await expect(row(page, ride)).to_contain_text("running")
        await row(page, ride).get_by_role("checkbox").check()
        await expect(page.get_by_text("paused during selection")).to_be_visible()
        console.gate("jobs-held").set()
        await console.until(ride, "succeeded")
        await expect(row(page, ride)).to_contain_text("running")
        await page.get_by_role("button", name="Clear selection").click()
        await expect(row(page, ride)).to_contain_text("succeeded")


async def test_selected_jobs_are_retried_after_a_look_and_that_can_be_undone(open_page, console):
    ids = await lost(console, "undone", 3)
    async with open_page("jobs?q=subject:undone") as page:
        await row(page, ids[0]).get_by_role("checkbox").check()
        await row(page, ids[1]).get_by_role("checkbox").check()
        await expect(page.get_by_text("2 jobs selected")).to_be_visible()
        await page.get_by_role("button", name="Retry…").click()
        dialog = page.get_by_role("dialog", name="Retry jobs")
        await expect(dialog).to_contain_text("2 jobs will be retried")
        await expect(dialog.get_by_role("list", name="First jobs").get_by_role("link")).to_have_count(2)
        await dialog.get_by_label("Jobs per second").fill("5")
        await dialog.get_by_role("button", name="Retry 2 jobs").click()
        await expect(
            page.get_by_role("region", name="Bulk retry").filter(has_text="2 selected jobs")
        ).to_contain_text("Starts in")
        await page.get_by_role("status").get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("Undone: no jobs were changed")).to_be_visible()
        await expect(
            page.get_by_role("region", name="Bulk retry").filter(has_text="2 selected jobs")
        ).to_contain_text("stopped")
    changes = await console.api("GET", "/jobs/bulk?limit=1")
    assert (changes["items"][0]["state"], changes["items"][0]["rate"]) == ("stopped", 5)
    for job_id in ids:
        assert (await console.api("GET", f"/jobs/{job_id}"))["status"] == "dead_letter"


async def test_all_that_match_are_canceled_far_beyond_the_page(open_page, console):
    jobs = [
        {"definition_key": "demo.greet", "delay_seconds": 3600, "subject": "all of them"} for _ in range(60)
    ]
    await console.api("POST", "/jobs/batch?tenant=default", {"jobs": jobs})
    async with open_page('jobs?q=subject:"all of them"') as page:
        await expect(page.get_by_role("link", name="All 60")).to_be_visible()
        await page.get_by_label("Select all on this page").check()
        await expect(page.get_by_text("50 jobs selected")).to_be_visible()
        await page.get_by_role("button", name="Select all 60 matching").click()
        await page.get_by_role("button", name="Cancel…").click()
        dialog = page.get_by_role("dialog", name="Cancel jobs")
        await expect(dialog).to_contain_text("and 55 more")
        await dialog.get_by_role("button", name="Cancel 60 jobs").click()
        change = page.get_by_role("region", name="Bulk cancel")
        await expect(change).to_contain_text("Starts in")
        await console.skip_undo_delay()
        await expect(change).to_contain_text("Canceled 60 of 60 jobs")
        await expect(page.locator("tbody tr").filter(has_text="canceled")).to_have_count(50)


async def test_pages_are_addresses_with_a_way_back(open_page, console):
    ids = await later(console, "paged", 55)
    oldest, newest = min(ids), max(ids)
    async with open_page("jobs?q=subject:paged") as page:
        await expect(row(page, newest)).to_be_visible()
        await page.get_by_role("button", name="Older").click()
        await expect(page.locator("tbody tr")).to_have_count(5)
        await page.reload()
        await expect(row(page, oldest)).to_be_visible()
        await page.get_by_role("button", name="Newest").click()
        await expect(row(page, newest)).to_be_visible()
        await expect(page.get_by_role("button", name="Newest")).to_be_disabled()


async def test_views_and_columns_are_kept_in_the_browser(open_page, console):
    [wanted] = await lost(console, "viewed")
    async with open_page("jobs?q=subject:viewed") as page:
        await expect(page.get_by_role("columnheader", name="Queue", exact=True)).to_have_count(0)
        await page.get_by_role("button", name="Columns").click()
        await page.get_by_role("checkbox", name="Queue", exact=True).check()
        await expect(page.get_by_role("columnheader", name="Queue", exact=True)).to_be_visible()
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Views").click()
        await page.get_by_role("button", name="Save view").click()
        await page.get_by_label("Name").fill("Lost letters")
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.goto(f"{console.url}/console/jobs")
        await expect(page.get_by_role("columnheader", name="Queue", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Views").click()
        await page.get_by_role("button", name="Lost letters subject:viewed").click()
        await expect(row(page, wanted)).to_be_visible()
        await expect(box(page)).to_have_value("subject:viewed")
        await page.get_by_role("button", name="Lost letters").click()
        await page.get_by_role("button", name="Delete view Lost letters").click()
        await expect(page.get_by_text("View “Lost letters” deleted")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("button", name="Lost letters")).to_be_visible()


async def test_the_keyboard_is_enough(open_page, console):
    ids = sorted(await lost(console, "keys", 2), reverse=True)
    async with open_page("jobs?q=subject:keys") as page:
        await expect(row(page, ids[1])).to_be_visible()
        await page.keyboard.press("j")
        await expect(row(page, ids[0]).get_by_role("link").first).to_be_focused()
        await page.keyboard.press("j")
        await page.keyboard.press("x")
        await expect(row(page, ids[1]).get_by_role("checkbox")).to_be_checked()
        await page.keyboard.press("Escape")
        await expect(row(page, ids[1]).get_by_role("checkbox")).not_to_be_checked()
        await page.keyboard.press("k")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{console.url}/console/jobs/{ids[0]}")


async def test_a_viewer_selects_nothing_and_an_empty_tenant_learns_what_to_do(open_page):
    async with open_page("jobs", role="tenant-viewer", tenant="jobs-empty") as page:
        await expect(page.get_by_text("posthouse enqueue")).to_be_visible()
        await expect(page.get_by_role("button", name="Enqueue")).to_have_count(0)
        await box(page).fill("status:failed")
        await box(page).press("Enter")
        await expect(page.get_by_text("No jobs match this filter")).to_be_visible()


async def test_a_viewer_sees_rows_without_checkboxes(open_page, console):
    [job_id] = await lost(console, "seen", tenant="jobs-viewed")
    async with open_page("jobs", role="tenant-viewer", tenant="jobs-viewed") as page:
        await expect(row(page, job_id)).to_be_visible()
        await expect(page.get_by_role("checkbox")).to_have_count(0)


async def test_markup_in_names_and_errors_is_text(open_page, console):
    job_id = await console.enqueue(
        "demo.fail", {"item": "1", "text": NASTY}, subject=NASTY, correlation_id=NASTY
    )
    await console.until(job_id, "dead_letter")
    async with open_page("jobs") as page:
        await expect(row(page, job_id).get_by_text(NASTY).first).to_be_visible()
        await row(page, job_id).get_by_role("link", name=NASTY).click()
        await expect(box(page)).to_have_value(f'subject:"{NASTY}"')
        await box(page).press("ArrowDown")
        await expect(options(page).get_by_role("option").first).to_be_visible()
        await box(page).press("Escape")
        await expect(row(page, job_id)).to_be_visible()
        assert await page.title() == "Jobs · Posthouse"
        assert await page.locator("main img").count() == 0


async def test_on_a_phone_jobs_are_cards_and_the_page_does_not_scroll_sideways(open_page, console):
    [job_id] = await lost(
        console, "a very long subject of a letter that has to be broken somewhere on a phone"
    )
    async with open_page("jobs", width=390) as page:
        await expect(row(page, job_id)).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        await row(page, job_id).get_by_role("checkbox").check()
        await expect(page.get_by_role("button", name="Retry…")).to_be_in_viewport()


async def test_the_jobs_page_has_no_serious_accessibility_violations(open_page, console):
    [job_id] = await lost(console, "axe")
    async with open_page("jobs?q=subject:axe") as page:
        await expect(page.get_by_role("link", name="All 1")).to_be_visible()
        assert await accessibility_violations(page) == []
        await row(page, job_id).get_by_role("checkbox").check()
        await box(page).fill("kind:")
        await expect(options(page).get_by_role("option").first).to_be_visible()
        assert await accessibility_violations(page) == []
        await box(page).press("Escape")
        await page.get_by_role("button", name="Views").click()
        assert await accessibility_violations(page) == []
        await page.get_by_role("button", name="Retry…").click()
        await expect(page.get_by_role("button", name="Retry 1 job")).to_be_visible()
        assert await accessibility_violations(page) == []
