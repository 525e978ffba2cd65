"""Uploads in parts, which continue after an interruption, also after a restart of the server.

The offset is the size of the file on disk, so it is right after a crash at any moment.
"""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import HTTPException, Query, Request
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field

from posthouse.server import Access, Permission, allow, api_router, file_body
from vlog import settings, uploads
from vlog.db import fetch_one, sql
from vlog.handlers import library
from vlog.playback import shown
from vlog.videos import found_video

router = api_router("/uploads", "vlog")
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]
UploadId = Annotated[UUID, InPath(description="Id of the upload.")]


class NewUpload(BaseModel):
    """A file to upload in parts."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(min_length=1, max_length=300, description="Title of the video.")]
    filename: Annotated[str, Field(max_length=300, description="Name of the file, for its extension.")]
    size: Annotated[int, Field(gt=0, le=2**62, description="Size of the file in bytes.")]


@router.post("", status_code=201)
async def create(new: NewUpload, access: Writer) -> dict[str, Any]:
    """Start an upload in parts.

    Send the parts with PATCH, then finish the upload. An upload without a change for a day is deleted.
    """
    suffix = uploads.checked_suffix(new.filename)
    if new.size > (most := settings.max_upload_bytes()):
        raise HTTPException(413, f"the file has {new.size:,} bytes, the limit is {most:,}")
    async with access.with_default_tenant().transaction() as db:
        made = await fetch_one(db, "partial_upload_add", title=new.title, suffix=suffix, size=new.size)
        assert made is not None
        file = library().part(made["id"])
        await asyncio.to_thread(file.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(file.touch)
    return _shown(made, 0)


@router.get("/{upload_id}")
async def show(upload_id: UploadId, access: Writer) -> dict[str, Any]:
    """Get an upload and its offset.

    The offset is the number of bytes that have arrived.
    """
    async with access.transaction() as db:
        found = await _found(db, upload_id)
    return _shown(found, await asyncio.to_thread(_size, library().part(found["id"])))


@router.patch("/{upload_id}")
async def append(
    request: Request,
    upload_id: UploadId,
    access: Writer,
    offset: Annotated[int, Query(ge=0, description="Number of bytes that the server has.")],
) -> dict[str, Any]:
    """Upload a part.

    The body is the part. 409 if the offset is not that of the upload: get it and continue from there.
    """
    async with access.with_default_tenant().transaction() as db:
        found = await fetch_one(db, "partial_upload_touch", id=upload_id)
        if found is None:
            raise _missing(upload_id)
    file = library().part(found["id"])
    return _shown(found, await _write(request, file, offset, found["size"]))


async def _write(request: Request, file: Path, offset: int, size: int) -> int:
    """Append the body to the file. What has arrived stays, also if the connection breaks."""
    try:
        target = file.open("r+b")
    except FileNotFoundError:
        raise HTTPException(409, "the upload is finished") from None
    with target:
        try:
            fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HTTPException(409, "another request is adding a part to this upload; try again") from None
        there = target.seek(0, 2)
        if there != offset:
            raise HTTPException(
                409, f"the upload has {there} bytes, not {offset}; continue at offset {there}"
            )
        async for piece in file_body(request, size - offset):
            await asyncio.to_thread(target.write, piece)
        return target.tell()


@router.post("/{upload_id}/finish", status_code=201)
async def finish(request: Request, upload_id: UploadId, access: Writer) -> dict[str, Any]:
    """Create the video of a complete upload.

    Starts its transcoding. A repeated request returns the same video.
    """
    async with access.with_default_tenant().transaction() as db:
        found = await _found(db, upload_id)
        if found["video_id"] is None:
            file = library().part(found["id"])
            there = await asyncio.to_thread(_size, file)
            if there != found["size"]:
                raise HTTPException(409, f"the upload is incomplete: {there} of {found['size']} bytes")
            found["video_id"] = await uploads.become_video(db, found["title"], file, found["suffix"])
            done = {"id": upload_id, "video_id": found["video_id"]}
            await db.execute(sql("partial_upload_finish"), done)
        return await shown(request, await found_video(db, found["video_id"]))


@router.delete("/{upload_id}", status_code=204)
async def cancel(upload_id: UploadId, access: Writer) -> None:
    """Delete an unfinished upload."""
    async with access.with_default_tenant().transaction() as db:
        if await fetch_one(db, "partial_upload_delete", id=upload_id) is None:
            raise _missing(upload_id)
    await asyncio.to_thread(library().part(str(upload_id)).unlink, missing_ok=True)


async def _found(db: Any, upload_id: UUID) -> dict[str, Any]:
    found = await fetch_one(db, "partial_upload_find", id=upload_id)
    if found is None:
        raise _missing(upload_id)
    return found


def _missing(upload_id: UUID) -> HTTPException:
    return HTTPException(404, f"upload {upload_id} does not exist")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _shown(upload: dict[str, Any], offset: int) -> dict[str, Any]:
    return {**upload, "offset": upload["size"] if upload["video_id"] else offset}
