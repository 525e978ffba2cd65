"""The start page of the applications in a real browser, from the link that `posthouse up` prints."""

import re

import pytest

from support.browsers import ARGUMENTS, CHROMIUM, playwright
from support.waiting import WAIT_SECONDS


@pytest.fixture
def page():
    with playwright("sync_api").sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(reduced_motion="reduce")
        page.set_default_timeout(1000 * WAIT_SECONDS)
        yield page
        browser.close()


def test_a_demo_runs_from_the_start_page_and_its_data_is_on_the_page_of_the_application(
    shop, posthouse, page, db
):
    from playwright.sync_api import expect  # noqa: PLC0415 - optional

    up = posthouse.start("up", "--port", "0", "--app", "shop:app", "--app", "posthouse.cli.demo:app")
    address = up.line().partition("ready: ")[2]
    printed = [up.line() for _ in range(4)]
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(re.fullmatch(rf"  Apps +({address}/apps/#ticket=once_\S+)", printed[3])[1])
    card = page.get_by_role("region", name="Shop", exact=True)
    expect(card).to_contain_text("Loaves that jobs bake and sell.")
    card.get_by_role("button", name="Run the demo").click()
    run = card.get_by_role("region", name="Demo of shop")
    expect(run.get_by_text("Succeeded")).to_be_visible()
    expect(run).to_contain_text("sold")
    expect(card.get_by_role("button", name="Run the demo again")).to_be_enabled()
    run.get_by_role("list", name="Open the result").get_by_role("link", name="Loaves in the shop").click()
    expect(page).to_have_url(f"{address}/apps/shop/")
    expect(page.get_by_text("3 loaves")).to_be_visible()
    page.get_by_role("link", name="Applications").click()
    expect(card).to_be_visible()
    assert problems == []
    # The demo had no worker of its own, and left no key that works.
    assert db.execute("select count(*) from posthouse.keys where revoked_at is null").fetchone() == (1,)
    assert db.execute("select count(distinct name) from posthouse.workers").fetchone() == (1,)
