"""HTTP routes of the application. The routes of workers are part of Posthouse."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from fastapi import HTTPException, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from posthouse.server import Access, Permission, allow, api_router
from vlog import settings, uploads
from vlog.db import Db, fetch_all, fetch_one, sql
from vlog.handlers import discard, library
from vlog.partial_uploads import router as partial_uploads
from vlog.playback import router as playback
from vlog.playback import video_response
from vlog.videos import VideoId, fetch_videos, get_video_or_404, video_not_found

router = api_router("/api/videos", "vlog")
Reader = Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]
Title = Annotated[str, Query(min_length=1, max_length=300, description="Title of the video.")]
ACTIVE = {"pending", "processing"}


class Retranscode(BaseModel):
    """Options of a new transcoding."""

    model_config = ConfigDict(extra="forbid")

    qualities: Annotated[list[str] | None, Field(max_length=20)] = Field(
        default=None, description="Qualities to transcode again, such as 720p; default: all configured."
    )
    delete_transcription: bool = Field(
        default=False, description="Delete the transcription when the new output is published."
    )


class Transcription(BaseModel):
    """The transcription of a video."""

    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(max_length=1_000_000, description="Spoken text.")]


@router.post("", status_code=201)
async def upload(
    request: Request,
    access: Writer,
    title: Title,
    filename: Annotated[str, Query(max_length=300, description="Name of the file, for its extension.")],
) -> dict[str, Any]:
    """Upload a video and start its transcoding.

    The body is the file. The video and its jobs are created in one transaction.
    """
    suffix = uploads.validate_suffix(filename)
    arrived = await uploads.store_upload(request)
    try:
        async with access.with_default_tenant().transaction() as db:
            video_id = await uploads.create_video(db, title, arrived, suffix)
            return await video_response(request, await get_video_or_404(db, video_id))
    finally:
        await asyncio.to_thread(arrived.unlink, missing_ok=True)


router.include_router(partial_uploads)


@router.get("")
async def videos(
    request: Request,
    access: Reader,
    limit: Annotated[int, Query(ge=1, le=200, description="Page size.")] = 50,
    before: Annotated[int | None, Query(description="Only videos with a lower id.")] = None,
    q: Annotated[str | None, Query(max_length=300, description="Only titles that contain this text.")] = None,
) -> list[dict[str, Any]]:
    """List videos, newest first."""
    async with access.transaction() as db:
        found = await fetch_videos(db, before, q, limit)
    return [await video_response(request, video) for video in found]


@router.get("/progress")
async def active(access: Reader) -> list[dict[str, Any]]:
    """List the videos that wait or are processed.

    Oldest first, with the worker, and the progress of each quality.
    """
    async with access.transaction() as db:
        return await fetch_all(db, "progress_list")


@router.get("/{video_id}")
async def video(request: Request, video_id: VideoId, access: Reader) -> dict[str, Any]:
    """Get a video with its status and qualities."""
    async with access.transaction() as db:
        return await video_response(request, await get_video_or_404(db, video_id))


@router.get("/{video_id}/progress")
async def progress(video_id: VideoId, access: Reader) -> dict[str, Any]:
    """Get the progress of a video.

    Its newest job, and the progress of each quality.
    """
    async with access.transaction() as db:
        found = await get_video_or_404(db, video_id)
        job = await fetch_one(db, "transcoding_job", id=video_id)
        return {
            "status": found["status"],
            "job": job,
            "qualities": await fetch_all(db, "quality_progress", id=video_id),
        }


@router.post("/{video_id}/retranscode", status_code=202)
async def retranscode(
    request: Request, video_id: VideoId, asked: Retranscode, access: Writer
) -> dict[str, Any]:
    """Transcode a video again.

    The current output stays available until the new one is validated and published.
    """
    qualities = uploads.validate_qualities(asked.qualities or settings.qualities())
    async with (await _access_for_owner(access, video_id)).transaction() as db:
        video = await _lock_video_or_404(db, video_id)
        found = await get_video_or_404(db, video_id)
        if _is_in_progress(found):
            raise HTTPException(
                409, f"video {video_id} is being transcoded by job {video['job_id']}; wait until it has ended"
            )
        await db.execute(sql("job_cancel"), {"id": video["publish_id"], "actor": access.actor})
        existing = [item["quality"] for item in found["qualities"]]
        again = [name for name in existing if asked.qualities is None or name in qualities]
        metadata = {
            "retranscode_all": asked.qualities is None,
            "qualities_to_delete": again,
            "delete_transcription": asked.delete_transcription,
            "video_dir": str(library().videos / video["slug"]),
        }
        keep = [name for name in existing if name not in again]
        await uploads.start_transcoding(
            db, video, qualities, keep=keep, retranscode_metadata=json.dumps(metadata)
        )
        return await video_response(request, await get_video_or_404(db, video_id))


@router.put("/{video_id}/transcription", status_code=204)
async def transcription(video_id: VideoId, given: Transcription, access: Writer) -> None:
    """Store the transcription of a video."""
    async with (await _access_for_owner(access, video_id)).transaction() as db:
        if await fetch_one(db, "transcription_upsert", id=video_id, content=given.content) is None:
            raise video_not_found(video_id)


@router.delete("/{video_id}", status_code=204)
async def delete(video_id: VideoId, access: Writer) -> None:
    """Delete a video.

    Cancels and erases its jobs, and deletes its files.
    """
    async with (await _access_for_owner(access, video_id)).transaction() as db:
        video = await _lock_video_or_404(db, video_id)
        await db.execute(sql("video_delete"), {"id": video_id, "actor": access.actor})
        await discard.enqueue(connection=db, slug=video["slug"], source=video["source"], video_id=video_id)


router.include_router(playback)


def _is_in_progress(video: dict[str, Any]) -> bool:
    """Return whether the newest job is active, including one that waits to transcode a ready video again."""
    waits = video["status"] == "ready" and video["version"] != str(video["job_id"])
    return waits or video["status"] in ACTIVE


async def _access_for_owner(access: Access, video_id: int) -> Access:
    """Return the access for the tenant of a video: operators may change the videos of all tenants."""
    async with access.transaction() as db:
        return access.for_tenant((await get_video_or_404(db, video_id))["tenant_id"])


async def _lock_video_or_404(db: Db, video_id: int) -> dict[str, Any]:
    found = await fetch_one(db, "video_lock", id=video_id)
    if found is None:
        raise video_not_found(video_id)
    return found
