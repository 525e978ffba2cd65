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
from vlog.playback import video_response
from vlog.videos import get_video_or_404

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
    suffix = uploads.validate_suffix(new.filename)
    if new.size > (limit := settings.max_upload_bytes()):
        raise HTTPException(413, f"the file has {new.size:,} bytes, the limit is {limit:,}")
    async with access.with_default_tenant().transaction() as db:
        created = await fetch_one(db, "partial_upload_add", title=new.title, suffix=suffix, size=new.size)
        assert created is not None
        file = library().partial_file(created["id"])
        await asyncio.to_thread(file.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(file.touch)
    return _upload_response(created, 0)


@router.get("/{upload_id}")
async def show(upload_id: UploadId, access: Writer) -> dict[str, Any]:
    """Get an upload and its offset.

    The offset is the number of bytes that have arrived.
    """
    async with access.transaction() as db:
        found = await _get_upload_or_404(db, upload_id)
    return _upload_response(found, await asyncio.to_thread(_size, library().partial_file(found["id"])))


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
            raise _not_found(upload_id)
    file = library().partial_file(found["id"])
    return _upload_response(found, await _write(request, file, offset, found["size"]))


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
        size_on_disk = target.seek(0, 2)
        if size_on_disk != offset:
            raise HTTPException(
                409, f"the upload has {size_on_disk} bytes, not {offset}; continue at offset {size_on_disk}"
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
        found = await _get_upload_or_404(db, upload_id)
        if found["video_id"] is None:
            file = library().partial_file(found["id"])
            size_on_disk = await asyncio.to_thread(_size, file)
            if size_on_disk != found["size"]:
                raise HTTPException(409, f"the upload is incomplete: {size_on_disk} of {found['size']} bytes")
            found["video_id"] = await uploads.create_video(db, found["title"], file, found["suffix"])
            done = {"id": upload_id, "video_id": found["video_id"]}
            await db.execute(sql("partial_upload_finish"), done)
        return await video_response(request, await get_video_or_404(db, found["video_id"]))


@router.delete("/{upload_id}", status_code=204)
async def cancel(upload_id: UploadId, access: Writer) -> None:
    """Delete an unfinished upload."""
    async with access.with_default_tenant().transaction() as db:
        if await fetch_one(db, "partial_upload_delete", id=upload_id) is None:
            raise _not_found(upload_id)
    await asyncio.to_thread(library().partial_file(str(upload_id)).unlink, missing_ok=True)


async def _get_upload_or_404(db: Any, upload_id: UUID) -> dict[str, Any]:
    found = await fetch_one(db, "partial_upload_find", id=upload_id)
    if found is None:
        raise _not_found(upload_id)
    return found


def _not_found(upload_id: UUID) -> HTTPException:
    return HTTPException(404, f"upload {upload_id} does not exist")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _upload_response(upload: dict[str, Any], offset: int) -> dict[str, Any]:
    return {**upload, "offset": upload["size"] if upload["video_id"] else offset}
