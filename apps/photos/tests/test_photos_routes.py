"""The routes of the gallery: what a role may do, and that a tenant never sees the photos of another."""

import os

import pytest

from photos.app import watch
from photos.sample_pictures import render_scene
from photos.watching import find_changes
from posthouse import testing

EVENTS = "select tenant_id, context from posthouse.events where name = 'provider.folder.updated' order by at"


@pytest.fixture
async def clients(running_app, photos_root):
    """The admin and the viewer of a tenant, and the admin of another tenant."""
    return {
        "admin": await running_app.client_for("tenant-admin", "harbour"),
        "viewer": await running_app.client_for("tenant-viewer", "harbour"),
        "other": await running_app.client_for("tenant-admin", "sakura"),
        "operator": await running_app.client_for("super-admin"),
    }


async def ask(client, method, path, status=200, **request):
    answer = await client.request(method, f"/photos/{path}", **request)
    assert answer.status_code == status, answer.text
    return answer


async def new_library(client, zone):
    return (await ask(client, "POST", "libraries", 201, json={"timezone": zone})).json()


def synced(photos, library):
    code, _, err = photos("sync", "--provider-id", library["providers"][0]["id"], tenant=library["tenant_id"])
    assert code == 0, err


async def test_a_library_is_created_with_triggers_in_its_time_zone(running_app, clients, photos_root):
    admin, viewer = clients["admin"], clients["viewer"]
    assert (await ask(viewer, "GET", "libraries")).json() == []
    await ask(viewer, "POST", "libraries", 403, json={"timezone": "Asia/Tokyo"})
    await ask(admin, "POST", "libraries", 422, json={"timezone": "Nowhere/Else"})
    assert not photos_root.exists(), "a rejected request leaves nothing behind"
    library = await new_library(admin, "America/New_York")
    assert (library["tenant_id"], library["pictures"], library["models"]) == ("harbour", 0, [])
    await ask(admin, "POST", "libraries", 409, json={})
    triggers = (await viewer.get("/api/v1/jobs/triggers")).json()["items"]
    assert {trigger["definition_key"] for trigger in triggers} == {"photos.sync", "photos.tag"}
    assert [each["timezone"] for each in triggers if each["cron_expr"]] == ["America/New_York"]


async def test_uploads_are_checked_and_replace_nothing(
    running_app, clients, photos_root, tmp_path, monkeypatch
):
    admin = clients["admin"]
    beach = render_scene("beach", tmp_path / "beach.jpg", 1).read_bytes()
    await ask(admin, "PUT", "pictures/a.jpg", 404, content=beach)
    library = await new_library(admin, "UTC")
    upload = "pictures/IMG 1.jpg?album=beach"
    assert (await ask(admin, "PUT", upload, 201, content=beach)).json() == {
        "path": "/beach/IMG 1.jpg",
        "provider_id": library["providers"][0]["id"],
    }
    assert (await ask(admin, "PUT", upload, 201, content=beach)).json()["path"] == "/beach/IMG 1.jpg"
    other = render_scene("forest", tmp_path / "forest.jpg", 2).read_bytes()
    assert (await ask(admin, "PUT", upload, 201, content=other)).json()["path"] == "/beach/IMG 1-2.jpg"
    assert (await ask(admin, "PUT", "pictures/x.jpg", 422, content=b"text")).json()["detail"] == (
        "cannot read x.jpg: not a supported image format; upload a JPEG, PNG or WebP file"
    )
    await ask(admin, "PUT", "pictures/x.jpg", 422, content=beach[: len(beach) // 2])
    for name, album in (("x.exe", "a"), ("..%2Fx.jpg", "a"), ("x.jpg", ".."), ("x.jpg", "a%2Fb")):
        answer = await admin.put(f"/photos/pictures/{name}?album={album}", content=beach)
        assert answer.status_code in {404, 405, 422}, (name, album)
    monkeypatch.setenv("PHOTOS_MAX_UPLOAD_BYTES", "100")
    await ask(admin, "PUT", "pictures/x.jpg", 413, content=beach)
    await ask(clients["viewer"], "PUT", "pictures/x.jpg", 403, content=beach)
    files = [path.name for path in (photos_root / "harbour/pictures").rglob("*") if path.is_file()]
    assert sorted(files) == [".photos-access", "IMG 1-2.jpg", "IMG 1.jpg"]
    emitted = running_app.rows(EVENTS)
    assert [row["context"]["folder_path"] for row in emitted] == ["/beach"] * 3


async def test_a_tenant_never_sees_the_photos_of_another(running_app, clients, photos, photos_root, tmp_path):
    beach = render_scene("beach", tmp_path / "beach.jpg", 1).read_bytes()
    admin, viewer, other, operator = clients.values()
    harbour = await new_library(admin, "America/New_York")
    await ask(admin, "PUT", "pictures/secret.jpg?album=beach", 201, content=beach)
    synced(photos, harbour)
    (picture,) = (await ask(viewer, "GET", "pictures?keyword=blue")).json()["items"]
    assert picture["path"] == "/beach/secret.jpg"
    assert {"blue", "landscape"} <= {tag["keyword"] for tag in picture["tags"]}
    files = [f"pictures/{picture['id']}/{size}" for size in ("thumbnail", "original")]
    thumbnail, original = [await ask(viewer, "GET", file) for file in files]
    assert thumbnail.headers["content-type"] == "image/jpeg"
    assert original.content == beach

    for path in ("pictures", *files):
        await ask(other, "GET", path, 404)
    await new_library(other, "Asia/Tokyo")
    assert (await ask(other, "GET", "pictures")).json() == {"items": [], "total": 0}
    for path in files:
        await ask(other, "GET", path, 404)
    for path in ("libraries", "pictures", *files):
        await ask(other, "GET", f"{path}?tenant=harbour", 403)
    await ask(other, "PUT", "pictures/x.jpg?tenant=harbour", 403, content=beach)
    await ask(other, "POST", "scan?tenant=harbour", 403)
    assert [each["tenant_id"] for each in (await ask(other, "GET", "libraries")).json()] == ["sakura"]
    worker = await running_app.client_for("worker")
    await ask(worker, "GET", files[0], 403)

    everything = (await ask(operator, "GET", "libraries")).json()
    assert [each["tenant_id"] for each in everything] == ["harbour", "sakura"]
    await ask(operator, "GET", "pictures", 422)
    assert (await ask(operator, "GET", "pictures?tenant=harbour")).json()["total"] == 1

    outside = tmp_path / "outside.jpg"
    outside.write_bytes(b"not of this tenant")
    file = photos_root / "harbour/pictures/beach/secret.jpg"
    file.unlink()
    file.symlink_to(outside)
    await ask(viewer, "GET", files[1], 404)
    synced(photos, harbour)
    await ask(viewer, "GET", files[0], 404)
    assert list((photos_root / "harbour/.thumbnails").iterdir()) == []


async def test_changed_folders_are_announced_once_and_by_the_watcher(
    running_app, clients, photos, photos_root
):
    library = await new_library(clients["admin"], "UTC")
    folder = photos_root / "harbour/pictures"
    assert (await ask(clients["viewer"], "POST", "scan")).json() == []
    new = render_scene("beach", folder / "inbox" / "1.jpg", 1)
    written = new.stat().st_mtime
    assert find_changes(folder.parent, written + 0.5) == [], "it may still be being copied"
    os.utime(new, (written - 60, written - 60))
    (change,) = (await ask(clients["viewer"], "POST", "scan")).json()
    assert change == {"provider_id": library["providers"][0]["id"], "folder_path": "/inbox", "files": 1}
    await ask(clients["admin"], "POST", "scan")
    assert [row["tenant_id"] for row in running_app.rows(EVENTS)] == ["harbour"]
    await watch.enqueue()
    await testing.drain(running_app.app)
    assert len(running_app.rows(EVENTS)) == 2
    synced(photos, library)
    new.unlink()
    (change,) = (await ask(clients["viewer"], "POST", "scan")).json()
    assert change["files"] == 1
    synced(photos, library)
    assert (await ask(clients["viewer"], "POST", "scan")).json() == []
