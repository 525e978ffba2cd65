"""The frame of the console: who gets in, and how it is served."""

import gzip
import re

import httpx
from playwright.async_api import expect

from posthouse.console.assets import assets


async def test_a_key_opens_it_and_logging_out_closes_it(open_page, console):
    async with open_page(role=None, refused=[401]) as page:
        await page.get_by_label("Key").fill("wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert")).to_contain_text("unknown, expired or revoked")
        await page.get_by_label("Key").fill(await console.key("super-admin"))
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_label("Key")).to_be_visible()


async def test_the_address_that_up_prints_logs_in_once(open_page, console):
    ticket = console.console_address().partition("/console/")[2]
    async with open_page(ticket, role=None, refused=[401]) as page:
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert "ticket" not in page.url
    async with open_page(ticket, role=None, refused=[401]) as page:
        await expect(page.get_by_label("Key")).to_be_visible()


async def test_the_page_forbids_foreign_and_inline_scripts(console):
    async with httpx.AsyncClient(base_url=console.url, follow_redirects=True) as client:
        page = await client.get("/")
        assert page.url.path == "/console/"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        again = (await client.get("/console/jobs")).headers["content-security-policy"]
        assert again != policy, "the nonce is another each time"


async def test_files_are_kept_by_browsers_until_they_change(console):
    async with httpx.AsyncClient(base_url=console.url) as client:
        found = await client.get(f"/console/assets/{assets().version}/js/main.js")
        assert "immutable" in found.headers["cache-control"]
        assert found.headers["content-encoding"] == "gzip"
        assert (await client.get("/console/assets/0/js/main.js")).status_code == 404
        outside = f"/console/assets/{assets().version}/..%2f__init__.py"
        assert (await client.get(outside)).status_code == 404


def test_all_of_it_is_at_most_150_kilobytes():
    paths = [path for ending in (".js", ".css") for path in assets().paths(ending)]
    assert sum(len(gzip.compress(assets().find(path).content)) for path in paths) <= 150_000


async def test_on_an_unknown_page_no_entry_of_the_navigation_is_current(open_page):
    async def with_applications(route):
        answer = await route.fetch()
        listed = 'data-apps="[[&quot;Applications&quot;, &quot;/apps/&quot;]]"'
        body = re.sub(r'data-apps="[^"]*"', listed, await answer.text())
        await route.fulfill(response=answer, body=body)

    async with open_page("nowhere", before={"**/console/nowhere": with_applications}) as page:
        await expect(page.get_by_text("Page not found")).to_be_visible()
        pages = page.get_by_role("navigation", name="Pages")
        await expect(pages.get_by_role("link", name="Applications")).to_be_visible()
        await expect(pages.locator("[aria-current]")).to_have_count(0)
