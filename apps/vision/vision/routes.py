"""HTTP routes of the application. Callers see the videos of their own team."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import HTTPException, Query, Request
from psycopg.types.json import Jsonb

from posthouse.server import Access, api_router, file_body
from vision import media_routes, paths
from vision.db import sql
from vision.entities import parse_query
from vision.handlers import clip_generate, discard, sample, transcode
from vision.ocr import UnknownLanguage, check_languages, readable_languages
from vision.options import ReadingOptions
from vision.requests import (
    EMPTY,
    ClipName,
    NewClip,
    NewVideo,
    Reader,
    Rows,
    VideoId,
    Writer,
    fetch_all,
    get_clip_or_404,
    get_video_or_404,
    reject_empty,
)
from vision.settings import max_upload_bytes
from vision.stages import stage_options
from vision.storage import NotStored, storage

UPLOAD_LIFE = timedelta(hours=24)
router = api_router("/vision", "vision")
router.include_router(media_routes.router)
Limit = Annotated[int, Query(ge=1, le=500, description="Page size.")]
Offset = Annotated[int, Query(ge=0, le=100_000, description="Rows to skip.")]


@router.post("/videos", status_code=201)
async def register_video(new: NewVideo, access: Writer) -> dict[str, Any]:
    """Register a video.

    Returns where to upload the original. Processing starts after `PUT /videos/{video_id}/original`, after
    `POST /videos/{video_id}/uploaded`, or when the scanner finds the file in the storage.
    """
    _validate_languages(new.options)
    access = access.with_default_tenant()
    video_id = uuid4()
    path = paths.original(video_id)
    row = {
        "id": video_id,
        "team": access.tenant,
        "owner": access.actor,
        "title": new.title,
        "path": path,
    }
    async with access.transaction() as db:
        options = Jsonb(new.options.model_dump())
        await db.execute(sql("video_register"), {**row, "options": options})
    url = await asyncio.to_thread(storage().upload_url, path, UPLOAD_LIFE)
    return {"video_id": video_id, "s3_original_path": path, "upload_url": url}


@router.put("/videos/{video_id}/original", status_code=204)
async def upload_original(video_id: VideoId, request: Request, access: Writer) -> None:
    """Upload the original of a video and start its processing.

    For storage without an `upload_url`, such as a folder. The original of a ready or failed video is
    replaced, and the video is processed again; not allowed while it is being processed.
    """
    video = await get_video_or_404(access, video_id)
    if video["status"] == "processing":
        raise HTTPException(
            409,
            f"video {video_id} is being processed; replace its original when it has ended",
        )
    content = await reject_empty(file_body(request, max_upload_bytes()))
    await storage().receive(video["s3_original_path"], content)
    await _start_processing(access, video)


@router.post("/videos/{video_id}/uploaded", status_code=202)
async def start_uploaded(video_id: VideoId, access: Writer) -> dict[str, Any]:
    """Start the processing of an uploaded video.

    For files that were uploaded to the `upload_url`. Without this request the scanner finds the file within
    about a minute. A failed video is processed again.
    """
    video = await get_video_or_404(access, video_id)
    try:
        size = await asyncio.to_thread(storage().size, video["s3_original_path"])
    except NotStored:
        raise HTTPException(
            409, f"video {video_id} has no original at {video['s3_original_path']}; upload the file first"
        ) from None
    if size == 0:
        raise HTTPException(422, EMPTY)
    if video["status"] in {"uploading", "failed"}:
        await _start_processing(access, video)
        return {"video_id": video_id, "status": "processing"}
    return {"video_id": video_id, "status": video["status"]}


@router.delete("/videos/{video_id}", status_code=204)
async def delete_video(video_id: VideoId, access: Writer) -> None:
    """Delete a video.

    Deletes its texts and clips, cancels and erases its jobs, and deletes its files shortly after.
    """
    video = await get_video_or_404(access, video_id)
    access = access.for_tenant(video["team_id"])
    async with access.transaction() as db:
        found = await db.execute(sql("video_delete"), {"video": video_id, "actor": access.actor})
        if await found.fetchone() is None:  # deleted meanwhile
            raise HTTPException(404, "video not found")
        await discard.using(created_by=access.actor).enqueue(connection=db, video_id=video_id)


@router.get("/videos")
async def list_videos(access: Reader, limit: Limit = 50, offset: Offset = 0) -> Rows:
    """List videos, newest first."""
    return await fetch_all(access, "videos_list", video=None, limit=limit, offset=offset)


@router.get("/videos/{video_id}")
async def show_video(video_id: VideoId, access: Reader) -> dict[str, Any]:
    """Get a video and its current stage."""
    return await get_video_or_404(access, video_id)


@router.get("/videos/{video_id}/segments")
async def list_segments(video_id: VideoId, access: Reader, limit: Limit = 100, offset: Offset = 0) -> Rows:
    """List the text segments of a video, in order."""
    await get_video_or_404(access, video_id)
    return await fetch_all(access, "segments_list", video=video_id, limit=limit, offset=offset)


@router.get("/videos/{video_id}/jobs")
async def list_jobs(video_id: VideoId, access: Reader, limit: Limit = 50, offset: Offset = 0) -> Rows:
    """List the jobs of a video, newest first.

    The payload of a failed job has the `error`, and its `original_payload` beside it.
    """
    await get_video_or_404(access, video_id)
    return await fetch_all(access, "jobs_list", video=video_id, limit=limit, offset=offset)


@router.post("/videos/{video_id}/sample", status_code=202)
async def reprocess_video(video_id: VideoId, wanted: ReadingOptions, access: Writer) -> dict[str, Any]:
    """Read a video again with other options.

    Not allowed while the video is being processed, because its frames are replaced.
    """
    _validate_languages(wanted)
    video = await get_video_or_404(access, video_id)
    if video["status"] == "uploading" or video["stage_status"] in {"queued", "running"}:
        raise HTTPException(
            409, f"the video is at {video['stage'] or 'upload'}; wait until that stage has finished"
        )
    access = access.for_tenant(video["team_id"])
    payload = {"video_id": video_id, "s3_original_path": video["s3_original_path"]}
    sampling = {"target_fps": wanted.target_fps, "dedupe_threshold": wanted.dedupe_threshold}
    async with access.transaction() as db:
        parameters = {"video": video_id, "options": Jsonb(wanted.model_dump())}
        await db.execute(sql("video_options"), parameters)
        kind = sample.using(**_job_options(access, sample, video_id))
        job = await kind.enqueue(connection=db, **payload, **sampling)
    return {"job_id": job.id, "outcome": job.outcome}


@router.get("/languages")
async def list_languages(access: Reader) -> list[str]:
    """List the languages whose texts can be read here."""
    del access
    return sorted(await asyncio.to_thread(readable_languages))


@router.get("/search")
async def search(
    access: Reader,
    q: Annotated[str, Query(min_length=1, max_length=500, description="Search query.")],
    video_id: Annotated[UUID | None, Query(description="Only this video.")] = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Rows:
    """Search for text in videos.

    `q` may contain words or prefixes of words, @mentions, #hashtags, URLs and numbers; all must match.
    """
    words, terms = parse_query(q)
    return await fetch_all(
        access, "search", words=words, terms=terms, video=video_id, limit=limit, offset=offset
    )


@router.post("/clips", status_code=202)
async def create_clip(new: NewClip, access: Writer) -> dict[str, Any]:
    """Create a clip from a part of a video."""
    if new.t_end < new.t_start:
        raise HTTPException(422, f"t_end ({new.t_end}) must not be before t_start ({new.t_start})")
    video = await get_video_or_404(access, new.video_id)
    access = access.for_tenant(video["team_id"])
    clip_id = new.clip_id or str(uuid4())
    times = {"t_start": new.t_start, "t_end": new.t_end, "padding_ms": new.padding_ms}
    payload = {"video_id": new.video_id, "clip_id": clip_id, "s3_original_path": video["s3_original_path"]}
    async with access.transaction() as db:
        row = {"video": new.video_id, "clip": clip_id, "team": access.tenant, **times}
        await db.execute(sql("clip_request"), row)
        options = _job_options(access, clip_generate, new.video_id)
        options["dedupe_key"] += f":{clip_id}"
        await clip_generate.using(**options).enqueue(connection=db, **payload, **times)
    return {"clip_id": clip_id, "status": "queued"}


@router.get("/clips/{video_id}/{clip_id}")
async def show_clip(video_id: VideoId, clip_id: ClipName, access: Reader) -> dict[str, Any]:
    """Get a clip and its status."""
    return await get_clip_or_404(access, video_id, clip_id)


async def _start_processing(access: Access, video: dict[str, Any]) -> None:
    """Enqueue the first stage of an uploaded video, unless the scanner was faster."""
    access, video_id = access.for_tenant(video["team_id"]), video["video_id"]
    payload = {"video_id": video_id, "s3_original_path": video["s3_original_path"]}
    stored = "processing" if video["status"] == "failed" else video["status"]  # failure is derived from jobs
    await asyncio.to_thread(storage().remove_prefix, paths.clips(video_id))  # of an earlier original
    async with access.transaction() as db:
        start = {"video": video_id, "from": stored}
        started = await (await db.execute(sql("video_start"), start)).fetchone()
        if started and started[0]:
            await transcode.using(**_job_options(access, transcode, video_id)).enqueue(
                connection=db, **payload
            )


def _job_options(access: Access, kind: Any, video_id: UUID) -> Any:
    return {**stage_options(kind, video_id), "correlation_id": str(video_id), "created_by": access.actor}


def _validate_languages(options: ReadingOptions) -> None:
    try:
        check_languages(options.languages)
    except UnknownLanguage as error:
        raise HTTPException(422, str(error)) from None
