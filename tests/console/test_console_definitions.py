"""Definitions in the console: what an operator sets and clears, schemas and payloads on trial, commands."""

import json

from playwright.async_api import expect

from support.accessibility import accessibility_violations

INERT = "<img src=x onerror=alert(1)>"
ADMIN = "/admin/jobs/definitions"


async def command(console, key, **fields):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    argv = ["echo", "hello", "{payload.name}"]
    await console.api("POST", ADMIN, {"key": key, "arg_schema": schema, "command": {"argv": argv}, **fields})


async def test_a_setting_is_changed_marked_and_cleared(open_page):
    async with open_page("definitions/demo.fail") as page:
        await page.get_by_role("link", name="Edit").click()
        await page.get_by_label("Attempts").fill("7")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("code default: 1")).to_be_visible()
        await page.get_by_role("link", name="Definitions", exact=True).last.click()
        await expect(page.get_by_role("row").filter(has_text="demo.fail")).to_contain_text("1 overridden")
        await page.get_by_role("link", name="demo.fail").click()
        await page.get_by_role("button", name="Reset Max attempts").click()
        await expect(page.get_by_text("code default: 1")).to_have_count(0)


async def test_a_definition_changed_meanwhile_is_not_overwritten(open_page, console):
    await command(console, "raced")
    async with open_page("definitions/raced?edit=1", refused=[412]) as page:
        await expect(page.get_by_label("Attempts")).to_have_value("3")
        await console.api("PATCH", f"{ADMIN}/raced", {"priority": 50})
        await page.get_by_label("Attempts").fill("9")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("alert")).to_contain_text("reload and try again")


async def test_a_schema_is_tried_with_a_payload_while_it_is_written(open_page, console):
    await command(console, "tried")
    async with open_page("definitions/tried?edit=1") as page:
        schema = page.get_by_label("Payload schema")
        await schema.fill('{"type": "objekt"}')
        await expect(page.get_by_text("invalid JSON Schema").first).to_be_visible()
        await schema.fill('{"type": "object"')
        await expect(page.get_by_text("Invalid JSON:")).to_be_visible()
        properties = {"name": {"type": "string"}, "times": {"type": "integer", "maximum": 3}}
        await schema.fill(json.dumps({"type": "object", "properties": properties}))
        await page.get_by_label("times").fill("5")
        await page.get_by_label("name").fill("two words")
        await expect(page.get_by_text("Payload is invalid.")).to_be_visible()
        await expect(page.get_by_role("alert")).to_contain_text("times")
        await page.get_by_label("times").fill("2")
        await expect(page.get_by_text("Payload is valid.")).to_be_visible()
        await expect(page.get_by_role("list", name="Arguments").get_by_role("listitem")).to_have_text(
            ["echo", "hello", "two words"]
        )


async def test_a_command_is_created_deactivated_and_removed(open_page):
    async with open_page("definitions") as page:
        await page.get_by_role("link", name="New command").click()
        await page.get_by_label("Key").fill("say-hello")
        await page.get_by_label("Command").fill('{"argv": ["echo", ["{payload.name}"]]}')
        await expect(page.get_by_text("is never omitted").first).to_be_visible()
        await page.get_by_label("Command").fill('{"argv": ["echo", "--to={payload.name}"]}')
        await expect(page.get_by_role("list", name="Arguments")).to_contain_text("--to=world")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name="say-hello")).to_be_visible()
        await page.get_by_role("button", name="Deactivate").click()
        await expect(page.get_by_role("heading", name="inactive")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("button", name="Deactivate")).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("row").filter(has_text="demo.greet")).to_be_visible()
        await expect(page.get_by_role("row").filter(has_text="say-hello")).to_have_count(0)


async def test_tenants_see_what_to_enqueue_and_change_nothing(open_page):
    async with open_page("definitions/demo.greet", role="tenant-viewer", tenant="acme") as page:
        await page.get_by_label("times").fill("1.5")
        await expect(page.get_by_role("alert")).to_contain_text("times")
        for name in ("Edit", "Deactivate", "Enqueue"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)
        await expect(page.get_by_role("link", name="Edit")).to_have_count(0)


async def test_definitions_are_accessible_inert_and_fit_a_phone(open_page, console):
    key = "shown.here"
    await command(console, key, description=INERT)
    async with open_page(f"definitions?q={key}", width=390) as page:
        await expect(page.get_by_role("row").filter(has_text=INERT)).to_be_visible()
        await page.get_by_role("link", name=key).click()
        await page.get_by_label("name required").fill(INERT)
        await expect(page.get_by_role("list", name="Arguments")).to_contain_text(INERT)
        assert await page.locator("img").count() == 0
        assert await accessibility_violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
