"""posthouse demo photos: two tenants in two time zones sync photos at night, on request and on events."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from photos.config import TOKEN_VARIABLE, library_root
from photos.demo_client import TenantClient
from photos.library import Library
from photos.provider import add_provider
from photos.sample_pictures import SCENES, render_scene
from posthouse import PosthouseError
from posthouse.demo import Stage

PICTURES_PER_SCENE = 6
DEMO_MARKER = ".made-by-the-demo"
ZONES = {"harbour": "America/New_York", "sakura": "Asia/Tokyo"}


async def demo(stage: Stage) -> dict[str, Any]:
    root, token = library_root(), os.environ[TOKEN_VARIABLE]
    stage.worker("--no-keeper", "--commands", PHOTOS_LIBRARY=str(root), POSTHOUSE_SECRET_PHOTOS_TOKEN=token)
    async with TenantClient.all(stage.api_url, stage.api_key, ZONES) as tenants:
        for tenant in tenants:
            await tenant.register()
            await tenant.delete_triggers()
            folder = _generate_pictures(
                reset_demo_folder(root / tenant.name) / "camera", stage.size or PICTURES_PER_SCENE
            )
            with Library(root / tenant.name) as library:
                tenant.provider_id = add_provider(library, folder, "Camera uploads", token)
            await tenant.add_triggers()
            for command in ("sync", "train"):
                await _run(stage, tenant, command)
        first, other = tenants
        stage.say(f"adding a photo to the folder of {first.name}")
        render_scene("beach", root / first.name / "camera" / "inbox" / "IMG_0001.jpg", 999)
        event = await first.folder_updated("/inbox")
        await stage.follow(event, kinds=["photos.sync"])
        await _run(stage, first, "retag")
        tails = await first.output_tails()
        return {
            "tenants": ZONES,
            "next_nightly_sync": {tenant.name: await tenant.next_nightly_sync() for tenant in tenants},
            "pictures": {tenant.name: len(_list(root, tenant.name)) for tenant in tenants},
            "dropped": "/inbox/IMG_0001.jpg",
            "tags": _tags(root, first.name, "/inbox/IMG_0001.jpg"),
            "visible_to_the_other_tenant": len(_tags(root, other.name, "/inbox/IMG_0001.jpg")),
            "token_in_log_tails": token in tails,
            "log_tail": next(line for line in tails.splitlines() if "token" in line),
        }


def reset_demo_folder(folder: Path) -> Path:
    """Return an empty folder. Only folders created by an earlier demo are deleted."""
    if folder.exists() and not (folder / DEMO_MARKER).exists():
        raise PosthouseError(f"{folder} was not created by this demo; set PHOTOS_LIBRARY to another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / DEMO_MARKER).touch()
    return folder


def _generate_pictures(folder: Path, count: int) -> Path:
    for scene in SCENES:
        for number in range(count):
            render_scene(scene, folder / scene / f"{number}.jpg", number)
    return folder


async def _run(stage: Stage, tenant: TenantClient, command: str) -> None:
    """Run a command manually, as in the console."""
    await stage.follow(await tenant.run(f"photos.{command}"), kinds=["photos.sync", "photos.train"])


def _list(root: Path, tenant: str) -> list[dict[str, Any]]:
    with Library(root / tenant) as library:
        return library.pictures()


def _tags(root: Path, tenant: str, path: str) -> list[str]:
    return [
        f"{tag['keyword']} ({tag['source']}, {tag['confidence']:.2f})"
        for picture in _list(root, tenant)
        if picture["path"] == path
        for tag in picture["tags"]
    ]
