"""The page of the application in a real browser: live gallery, training, upload, and jobs by role."""

import pytest

from photos.sample_pictures import SCENES, render_scene
from support.browsers import launched, log_in, take_pictures
from support.waiting import WAIT_SECONDS


@pytest.fixture
async def open_gallery(running_app, photos_root, worker_env):
    """Opens the page for a role; all pages must be free of script errors."""
    problems = []
    async with launched() as browser:
        await running_app.worker("--commands", "--no-keeper", **worker_env)

        async def open_gallery(role, tenant=None, path=""):
            context = await browser.new_context(
                base_url=running_app.url, reduced_motion="reduce", timezone_id="Europe/Paris", locale="en-GB"
            )
            page = await context.new_page()
            page.set_default_timeout(1000 * WAIT_SECONDS)
            page.on("pageerror", lambda error: problems.append(str(error)))
            await log_in(page, f"/apps/photos/{path}", await running_app.key(role, tenant))
            return page

        yield open_gallery
    assert problems == []


async def test_pictures_appear_live_are_tagged_and_learned_and_jobs_follow_the_role(
    running_app, open_gallery, photos_root, tmp_path
):
    from playwright.async_api import expect  # noqa: PLC0415 - optional

    page = await open_gallery("tenant-admin", "harbour")
    await page.get_by_label("Time zone").fill("America/New_York")
    await page.get_by_role("button", name="Create library").click()
    await expect(page.get_by_text("No pictures yet")).to_be_visible()
    await expect(page.locator(".photos-next")).to_contain_text("02:00 America/New_York")
    await page.evaluate("window.isSamePage = true")

    folder = photos_root / "harbour" / "pictures"
    for scene in SCENES:
        for number in range(3):
            render_scene(scene, folder / scene / f"{scene}-{number}.jpg", number)
    tiles = page.get_by_role("list", name="Pictures").get_by_role("listitem")
    await expect(tiles).to_have_count(9)
    render_scene("beach", folder / "inbox" / "IMG_1.jpg", 99)
    dropped = tiles.filter(has_text="IMG_1.jpg")
    await expect(dropped.locator(".tag").filter(has_text="blue")).to_be_visible()
    await expect(dropped.locator("img")).not_to_have_js_property("naturalWidth", 0)

    await page.get_by_role("button", name="Train").click()
    await expect(page.locator(".card").filter(has_text="Trained keywords")).to_contain_text("beach 100 %")
    await page.get_by_role("button", name="Re-tag").click()
    await expect(dropped.locator("[data-source=trained]")).to_have_text("beach")
    upload = render_scene("forest", tmp_path / "from a phone.jpg", 7)
    await page.get_by_label("Album").fill("forest")
    await page.set_input_files("#photos-files", upload)
    uploaded = tiles.filter(has_text="from a phone.jpg")
    await expect(uploaded.locator("[data-source=trained]")).to_have_text("forest")
    assert await page.evaluate("window.isSamePage"), "the page was not reloaded"
    await take_pictures(page, "gallery")
    await page.get_by_role("button", name="sunset 3").click()
    await expect(tiles).to_have_count(3)
    await page.get_by_role("button", name="Open sunset-0.jpg").click()
    original = page.get_by_role("dialog").locator("img")
    await expect(original).not_to_have_js_property("naturalWidth", 0)
    await take_pictures(page, "picture")
    await running_app.until_ended()

    await _admin_acts_on_jobs(running_app, page, expect)
    await _viewer_sees_but_does_not_act(await open_gallery("tenant-viewer", "harbour"), expect)
    await _other_tenant_and_operator(running_app, open_gallery, expect)


async def _admin_acts_on_jobs(running_app, page, expect):
    admin = await running_app.client_for("tenant-admin", "harbour")
    later = {"definition_key": "photos.retag", "scheduled_for": "2040-01-01T00:00:00Z"}
    await admin.post("/api/v1/jobs", json=later)
    await page.goto("/apps/photos/jobs")
    cards = page.get_by_role("group", name="Jobs by status")
    await expect(cards.get_by_role("link").filter(has_text="Queued")).to_contain_text("1")
    await take_pictures(page, "jobs")
    waiting = page.get_by_role("row").filter(has_text="queued").filter(has_text="manual")
    await waiting.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("Job canceled")).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="canceled")).to_have_count(1)
    await page.get_by_role("row").filter(has_text="canceled").get_by_role("button", name="Retry").click()
    await expect(page.get_by_text("Retrying the job")).to_be_visible()
    await running_app.until_ended()
    await page.get_by_role("row").filter(has_text="photos.sync").last.get_by_label("Attempts").click()
    await expect(page.get_by_text("with token [secret]").first).to_be_visible()
    await take_pictures(page, "job")
    await page.get_by_role("link", name="Jobs").first.click()
    await (
        page.get_by_role("navigation", name="Jobs and triggers").get_by_role("link", name="Triggers").click()
    )
    nightly = page.get_by_role("row").filter(has_text="Nightly provider sync")
    await expect(nightly).to_contain_text("America/New_York")
    await expect(nightly).to_contain_text("02:00")
    await take_pictures(page, "triggers")
    await nightly.get_by_role("switch").click()
    await expect(nightly).to_contain_text("paused")


async def _viewer_sees_but_does_not_act(page, expect):
    await expect(page.get_by_role("list", name="Pictures").get_by_role("listitem")).to_have_count(11)
    for name in ("Upload pictures", "Sync", "Train", "Re-tag"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)
    await page.get_by_role("link", name="Jobs", exact=True).click()
    await expect(page.get_by_role("row").filter(has_text="photos.train")).to_have_count(1)
    for name in ("Retry", "Cancel"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)
    await page.get_by_role("link", name="Triggers").click()
    await expect(page.get_by_role("row").filter(has_text="Nightly provider sync")).to_contain_text("paused")
    await expect(page.get_by_role("switch")).to_have_count(0)


async def _other_tenant_and_operator(running_app, open_gallery, expect):
    other = await running_app.client_for("tenant-admin", "sakura")
    page = await open_gallery("tenant-viewer", "sakura")
    await expect(page.get_by_text("No library yet")).to_be_visible()
    await other.post("/photos/libraries", json={"timezone": "Asia/Tokyo"})
    await page.reload()
    await expect(page.get_by_text("No pictures yet")).to_be_visible()
    await expect(page.locator(".photos-next")).to_contain_text("02:00 Asia/Tokyo")
    page = await open_gallery("super-admin")
    libraries = page.get_by_role("list", name="Libraries").get_by_role("listitem")
    await expect(libraries).to_have_count(2)
    await expect(libraries.filter(has_text="harbour")).to_contain_text("11 pictures")
    await expect(libraries.filter(has_text="sakura")).to_contain_text("Asia/Tokyo")
    await take_pictures(page, "libraries")
    await libraries.filter(has_text="harbour").get_by_role("button", name="Open").click()
    await expect(page.get_by_role("list", name="Pictures").get_by_role("listitem")).to_have_count(11)
