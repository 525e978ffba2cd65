"""HTTP routes of the application. Callers see the library of their own tenant."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeVar
from uuid import uuid4

from fastapi import HTTPException, Path, Query, Request, Response
from pydantic import BaseModel, Field

from photos import gallery
from photos.app import FOLDER_UPDATED, app, emit_folder_updated
from photos.config import max_upload_bytes
from photos.default_triggers import default_triggers
from photos.errors import PermanentError
from photos.features import UnreadableImage
from photos.uploads import store_upload
from photos.watching import FolderChange, find_changes, find_libraries
from posthouse.server import Access, Permission, allow, api_router, file_body, file_route, local_file
from posthouse.triggers import create_trigger

router = api_router("/photos", "photos")
Reader = Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]
Planner = Annotated[Access, allow(Permission.TRIGGERS_WRITE, tenant_scoped=True)]
Album = Annotated[
    str, Query(pattern=r"^\w[\w -]{0,99}$", description="Folder for the photo, a keyword for training.")
]
FileName = Annotated[
    str,
    Path(
        pattern=r"^\w[\w .()+,-]{0,150}\.(jpe?g|JPE?G|png|PNG|webp|WEBP)$",
        description="File name ending in .jpg, .jpeg, .png or .webp.",
    ),
]
PictureId = Annotated[int, Path(ge=1, le=2**62, description="Id of the photo.")]
MEDIA_TYPES = {".png": "image/png", ".webp": "image/webp"}
EMIT_AGAIN_SECONDS = 60.0
R = TypeVar("R")

_emitted: dict[tuple[str, FolderChange], float] = {}
"""Changes that were announced by this process, and when."""


class NewLibrary(BaseModel):
    """A library to create."""

    timezone: str = Field(
        default="UTC",
        min_length=1,
        max_length=100,
        description="Time zone of the nightly sync, such as `Asia/Tokyo`.",
    )


@router.get("/libraries")
async def list_libraries(access: Reader) -> list[dict[str, Any]]:
    """List libraries.

    Tenants see their own library, with its providers, keywords and models; super-admins see all.
    """
    tenants = await asyncio.to_thread(find_libraries)
    visible = [tenant for tenant in tenants if access.tenant in {None, tenant}]
    return [await asyncio.to_thread(gallery.summary, tenant) for tenant in visible]


@router.post("/libraries", status_code=201)
async def create_library(new: NewLibrary, access: Planner) -> dict[str, Any]:
    """Create the library of a tenant.

    Creates an empty folder for photos and triggers that sync it on changes and every night.
    """
    tenant = _require_tenant(access)
    if gallery.has_library(tenant):
        raise HTTPException(409, f"tenant {tenant!r} has a library already")
    provider_id = str(uuid4())
    async with access.transaction() as db:
        for fields in default_triggers(provider_id, new.timezone):
            await create_trigger(db, fields, actor=access.actor, tenant=tenant)
        await _run_in_thread(gallery.create_library, tenant, provider_id)
    return await asyncio.to_thread(gallery.summary, tenant)


@router.get("/pictures")
async def list_pictures(
    access: Reader,
    keyword: Annotated[str | None, Query(max_length=200, description="Only photos with this tag.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Page size.")] = 60,
    offset: Annotated[int, Query(ge=0, le=10_000_000, description="Rows to skip.")] = 0,
) -> dict[str, Any]:
    """List photos with their tags, newest first."""
    return await _call_with_library(access, gallery.pictures_page, keyword or None, limit, offset)


@router.put("/pictures/{name}", status_code=201)
async def upload_picture(
    name: FileName, request: Request, access: Writer, album: Album = "inbox"
) -> dict[str, Any]:
    """Upload a photo.

    Stores it in the first folder of the library and emits `provider.folder.updated`, which starts a sync. If
    there is another photo with this name, a number is added.
    """
    provider_id, folder = await _call_with_library(access, gallery.album_folder, album)
    try:
        file = await store_upload(file_body(request, max_upload_bytes()), folder, name)
    except UnreadableImage as error:
        raise HTTPException(422, f"cannot read {name}: {error}; upload a JPEG, PNG or WebP file") from None
    context = {"provider_id": provider_id, "folder_path": f"/{album}"}
    async with access.transaction() as db:
        await app.client.emit(
            FOLDER_UPDATED, context, connection=db, tenant=_require_tenant(access), created_by=access.actor
        )
    return {"path": f"/{album}/{file.name}", "provider_id": provider_id}


@file_route(router, "/pictures/{picture_id}/{size}")
async def picture_file(
    picture_id: PictureId,
    size: Annotated[Literal["thumbnail", "original"], Path(description="Which file.")],
    request: Request,
    access: Reader,
) -> Response:
    """Download a photo or its thumbnail."""
    find = gallery.thumbnail if size == "thumbnail" else gallery.original
    file = await _call_with_library(access, find, picture_id)
    if file is None:
        raise HTTPException(404, "photo not found")
    return await local_file(request, file, MEDIA_TYPES.get(file.suffix.lower(), "image/jpeg"))


@router.post("/scan")
async def scan(access: Reader) -> list[dict[str, Any]]:
    """Report folders that changed since the last sync.

    Emits `provider.folder.updated` for each, as the watcher does every minute, so that a page that is open
    shows new photos within seconds. The same change is announced once a minute at most.
    """
    tenant = _require_tenant(access)
    found = await _call_with_library(access, _find_changes)
    now = time.monotonic()
    for change in found:
        if now - _emitted.get((tenant, change), -EMIT_AGAIN_SECONDS) >= EMIT_AGAIN_SECONDS:
            _emitted[tenant, change] = now
            await emit_folder_updated(tenant, change)
    for key in [key for key in _emitted if key[0] == tenant and key[1] not in found]:
        del _emitted[key]
    return [asdict(change) for change in found]


def _find_changes(tenant: str) -> list[FolderChange]:
    return find_changes(gallery.library_folder(tenant))


def _require_tenant(access: Access) -> str:
    if access.tenant is None:
        raise HTTPException(422, "no tenant given: add the query parameter tenant")
    return access.tenant


async def _call_with_library(access: Access, function: Callable[..., R], *arguments: Any) -> R:
    """Call a function with the tenant of the request; 404 if it has no library."""
    tenant = _require_tenant(access)
    if not await asyncio.to_thread(gallery.has_library, tenant):
        raise HTTPException(404, f"tenant {tenant!r} has no library; create it with POST /photos/libraries")
    return await _run_in_thread(function, tenant, *arguments)


async def _run_in_thread(function: Callable[..., R], *arguments: Any) -> R:
    try:
        return await asyncio.to_thread(function, *arguments)
    except PermanentError as error:
        raise HTTPException(422, str(error)) from None
