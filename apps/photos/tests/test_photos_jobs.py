"""The commands as jobs: definitions, triggers of two tenants, limits, logs, and a worker that is killed."""

import random
from datetime import UTC, datetime

import pytest

from photos.library import Library
from photos.sample_pictures import render_scene
from posthouse import testing

FOLDER_TRIGGER = {
    "label": "Resync on folder change",
    "trigger_type": "event",
    "event_name": "provider.folder.updated",
    "definition_key": "photos.sync",
    "payload_template": {"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"},
    "dedupe_window_seconds": 120,
}


@pytest.fixture
async def tenants(running_app, photos, camera):
    """Two of them: client, folder and provider of each."""
    found = {}
    for name in ("harbour", "sakura"):
        folder = camera(f"camera of {name}", 3)
        _, done, _ = photos("add-provider", "--folder", str(folder), tenant=name)
        found[name] = (await running_app.client_for("tenant-admin", name), folder, done["provider_id"])
    return found


@pytest.fixture
def start(running_app, worker_env):
    async def start(**env):
        return await running_app.worker("--commands", "--no-keeper", **worker_env, **env)

    return start


async def ask(client, method, path, status=None, **body):
    answer = await client.request(method, f"/api/v1{path}", json=body or None)
    assert answer.status_code == status if status else answer.is_success, answer.text
    return answer.json()


async def run(client, key, **payload):
    return (await ask(client, "POST", "/jobs", definition_key=key, payload=payload))["id"]


async def test_the_definitions_say_what_may_be_run(running_app):
    admin = await running_app.client_for("super-admin")
    found = await ask(admin, "GET", "/admin/jobs/definitions")
    commands = {one["key"]: one for one in found["items"] if one["key"].startswith("photos.")}
    assert sorted(commands) == [
        "photos.connect", "photos.create-list", "photos.retag", "photos.sync", "photos.tag", "photos.train",
    ]  # fmt: skip
    sync = commands["photos.sync"]
    assert sync["command"]["argv"][:4] == ["photos", "sync", "--tenant-id", "{tenant_id}"]
    assert (sync["timeout_seconds"], sync["max_attempts"], sync["queue"]) == (3600, 3, "photos")
    running_app.app.migrate()  # again: nothing is doubled


async def test_a_payload_that_does_not_fit_is_refused(running_app):
    client = await running_app.client_for("tenant-admin", "harbour")
    for key, payload, field in (
        ("photos.sync", {}, "provider_id"),
        ("photos.sync", {"provider_id": "x", "path_prefix": "here"}, "path_prefix"),
        ("photos.sync", {"provider_id": "--delete"}, "provider_id"),
        ("photos.sync", {"provider_id": "x", "shell": "rm -rf /"}, "shell"),
        ("photos.retag", {"model": "a; reboot"}, "model"),
        ("photos.train", {"min_photos": 0}, "min_photos"),
    ):
        answer = await client.post("/api/v1/jobs", json={"definition_key": key, "payload": payload})
        assert answer.status_code == 422, (key, payload)
        assert field in answer.json()["detail"], (key, payload)


async def test_a_picture_is_dropped_and_tagged_and_its_keyword_found(running_app, tenants, start, photos):
    client, folder, provider_id = tenants["harbour"]
    await ask(client, "POST", "/jobs/triggers", **FOLDER_TRIGGER)
    await start()
    first = await run(client, "photos.sync", provider_id=provider_id)
    await running_app.until_ended()
    await run(client, "photos.train")
    await running_app.until_ended()
    render_scene("beach", folder / "inbox" / "IMG_1.jpg", 99)
    context = {"provider_id": provider_id, "folder_path": "/inbox"}
    for _ in range(3):  # a folder that changes three times is synced once
        await ask(client, "POST", "/events", event_name="provider.folder.updated", context=context)
    await running_app.until(
        lambda: running_app.rows("select from posthouse.jobs where source = 'event'"), "an event's job"
    )
    await running_app.until_ended()
    await run(client, "photos.retag")
    await running_app.until_ended()
    assert running_app.statuses() == {
        ("photos.sync", "succeeded"): 2, ("photos.train", "succeeded"): 1, ("photos.retag", "succeeded"): 1
    }  # fmt: skip
    (picture,) = (one for one in photos("list")[1] if one["path"] == "/inbox/IMG_1.jpg")
    tags = {(tag["keyword"], tag["source"]) for tag in picture["tags"]}
    assert {("blue", "automatic"), ("beach", "trained")} <= tags
    job = await ask(client, "GET", f"/jobs/{first}")
    counts = {"added": 9, "changed": 0, "removed": 0, "unreadable": 0, "pictures": 9}
    assert job["result"] == {**counts, "provider_id": provider_id, "path_prefix": "/"}
    assert job["progress_percent"] == 100
    stranger = tenants["sakura"][0]
    assert (await ask(stranger, "GET", "/jobs"))["items"] == []
    assert photos("list", tenant="sakura")[1] == []


async def test_events_are_emitted_where_they_happen_and_a_sync_starts_the_tagging(
    running_app, tenants, start, photos_root
):
    client = tenants["harbour"][0]
    for event, command, template in (
        ("provider.connection.changed", "photos.sync", {"provider_id": "{{event.provider_id}}"}),
        ("images.ingest.completed", "photos.tag", {"path_prefix": "{{event.path_prefix}}"}),
    ):
        await ask(
            client, "POST", "/jobs/triggers", trigger_type="event", event_name=event, definition_key=command,
            payload_template=template, dedupe_window_seconds=0,
        )  # fmt: skip
    await start()
    render_scene("beach", photos_root / "harbour" / "phone" / "1.jpg", 1)
    await run(client, "photos.connect", folder="phone")
    tagged = "select from posthouse.jobs where kind = 'photos.tag' and status = 'succeeded'"
    await running_app.until(lambda: running_app.rows(tagged), "the tagging after the sync")
    await run(client, "photos.create-list", name="Blue", keyword="blue")
    context = {"provider_id": "p", "folder_path": "/"}
    await ask(client, "POST", "/events", event_name="provider.folder.updated", context=context)
    await running_app.until_ended()
    events = (await ask(client, "GET", "/events"))["items"]
    assert sorted(event["name"] for event in events) == [
        "images.ingest.completed", "list.created", "provider.connection.changed", "provider.folder.updated",
    ]  # fmt: skip
    (ingest,) = (event for event in events if event["name"] == "images.ingest.completed")
    assert (ingest["context"]["added"], ingest["context"]["path_prefix"]) == (1, "/")
    (listed,) = (event for event in events if event["name"] == "list.created")
    assert (listed["context"]["name"], listed["context"]["pictures"]) == ("Blue", 1)


async def test_a_tenant_connects_only_folders_of_its_library(running_app):
    client = await running_app.client_for("tenant-admin", "harbour")
    for folder in ("..", "../other", "/etc", "-x", "a/b"):
        await ask(
            client, "POST", "/jobs", 422, definition_key="photos.connect", payload={"folder": folder}
        )  # fmt: skip


async def test_the_token_is_in_no_log_and_no_table(running_app, tenants, start, token):
    client, _, provider_id = tenants["harbour"]
    await start()
    job_id = await run(client, "photos.sync", provider_id=provider_id)
    await running_app.until_ended()
    (attempt,) = await ask(client, "GET", f"/jobs/{job_id}/attempts")
    assert "opening provider camera of harbour with token [secret]" in attempt["stderr_tail"]
    assert '"pictures": 9' in attempt["stdout_tail"]
    assert token not in str(await ask(client, "GET", f"/jobs/{job_id}/logs"))
    assert token not in str(running_app.rows("select * from posthouse.attempts"))
    assert token not in running_app.logs()


async def test_a_worker_without_the_token_uses_its_own_which_is_rejected(
    running_app, tenants, worker_env, photos_root
):
    client, _, provider_id = tenants["harbour"]
    env = {name: value for name, value in worker_env.items() if "SECRET" not in name}
    await running_app.worker("--commands", "--no-keeper", **env)
    await run(client, "photos.sync", provider_id=provider_id)
    await running_app.until_ended()
    (job,) = running_app.rows("select status, last_error from posthouse.jobs")
    assert job["status"] == "failed"
    assert "access to provider camera of harbour denied" in job["last_error"]
    assert (photos_root / ".token").stat().st_mode & 0o077 == 0


async def test_permanent_errors_are_not_retried_and_others_are(running_app, tenants, start):
    client, folder, provider_id = tenants["harbour"]
    other, _, _ = tenants["sakura"]
    folder.rename(folder.with_name("away"))
    await start()
    later = await run(client, "photos.sync", provider_id=provider_id)
    never = await run(other, "photos.retag", model="none")
    await running_app.until(
        lambda: running_app.rows("select from posthouse.jobs where status = 'failed'"), "a failure"
    )
    await running_app.until(
        lambda: running_app.rows("select from posthouse.attempts where outcome = 'failed' and exit_code = 75")
    )
    assert (await ask(other, "GET", f"/jobs/{never}"))["status"] == "failed"
    job = await ask(client, "GET", f"/jobs/{later}")
    assert (job["status"], job["attempt_count"]) == ("queued", 1)
    assert "cannot access the folder" in job["last_error"]


async def test_each_tenant_runs_one_command_at_a_time(running_app, tenants, start):
    for client, _, provider_id in tenants.values():
        for _ in range(2):
            await run(client, "photos.sync", provider_id=provider_id)
    await start()
    await running_app.until_ended()
    overlaps = running_app.rows("""select from posthouse.attempts a join posthouse.attempts b
        on a.tenant_id = b.tenant_id and a.job_id < b.job_id
        and a.started_at < b.finished_at and b.started_at < a.finished_at""")
    assert overlaps == []
    assert running_app.statuses() == {("photos.sync", "succeeded"): 4}


async def test_nightly_syncs_come_at_two_in_the_morning_of_each_tenant(running_app, tenants):
    zones = {"harbour": "America/New_York", "sakura": "Asia/Tokyo"}
    async with testing.clock(running_app.app) as clock:
        await clock.move_to(datetime(2030, 7, 1, 12, tzinfo=UTC))
        for name, (client, _, provider_id) in tenants.items():
            await ask(
                client,
                "POST",
                "/jobs/triggers",
                label="Nightly provider sync",
                trigger_type="schedule",
                cron_expr="0 2 * * *",
                timezone=zones[name],
                definition_key="photos.sync",
                payload_template={"provider_id": provider_id, "path_prefix": "/"},
            )
        next_runs = "select tenant_id, next_at from posthouse.triggers where next_at is not null order by 1"
        nights = await running_app.until(
            lambda: len(rows := running_app.rows(next_runs)) == 2 and rows, "two times"
        )
        assert [night["next_at"] for night in nights] == [
            datetime(2030, 7, 2, 6, tzinfo=UTC), datetime(2030, 7, 1, 17, tzinfo=UTC)
        ]  # fmt: skip
        await clock.move_to(datetime(2030, 7, 1, 17, 0, 1, tzinfo=UTC))
        await running_app.until(lambda: running_app.rows("select from posthouse.jobs"), "the night of Tokyo")
        (job,) = running_app.rows("select tenant_id, kind, source from posthouse.jobs")
    assert job == {"tenant_id": "sakura", "kind": "photos.sync", "source": "schedule"}


async def test_a_worker_killed_in_the_middle_of_a_sync_leaves_a_library_that_the_next_completes(
    running_app, tenants, start, photos
):
    client, folder, provider_id = tenants["harbour"]
    for number in range(60):
        render_scene("forest", folder / "more" / f"{number}.jpg", 100 + number)
    after = random.SystemRandom().randrange(1, 50)
    print(f"killed after {after} pictures")  # noqa: T201 - pytest shows it if it fails
    worker = await start()
    await run(client, "photos.sync", provider_id=provider_id)
    await running_app.until(lambda: len(photos("list")[1]) >= after, "some pictures")
    running_app.kill(worker)
    await start()
    await running_app.until_ended()
    assert running_app.statuses() == {("photos.sync", "succeeded"): 1}
    with Library(folder.parent / "library" / "harbour") as library:
        pictures = library.pictures()
    assert len(pictures) == len({picture["path"] for picture in pictures}) == 69
    assert all(picture["tags"] for picture in pictures)
