"""The application. Commands are defined in schema.sql; the only handler watches the folders."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import posthouse
from photos.config import apply_defaults, local_folder, watch_schedule
from photos.watching import FolderChange, find_changes, find_libraries
from posthouse.blobs import app_storage

FOLDER_UPDATED = "provider.folder.updated"

apply_defaults(os.environ, local_folder(app_storage("photos").url))
app = posthouse.App(schema=Path(__file__).with_name("schema.sql"), routes="photos.web:router")


@app.job("photos.watch", timeout="10m")
async def watch() -> int:
    """Emit an event for each folder that differs from its library; return their number."""
    count = 0
    for tenant, folder in find_libraries().items():
        for change in await asyncio.to_thread(find_changes, folder):
            await emit_folder_updated(tenant, change)
            count += 1
    return count


if schedule := watch_schedule():
    watch.on_schedule(schedule, missed="skip", overlap="skip", label="Watch the folders of all libraries")


async def emit_folder_updated(tenant: str, change: FolderChange) -> None:
    """Emit the event of a changed folder."""
    context = {"provider_id": change.provider_id, "folder_path": change.folder_path}
    await app.client.emit(FOLDER_UPDATED, context, tenant=tenant, created_by="photos")
