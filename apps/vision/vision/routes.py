"""HTTP routes of the application. Callers see the videos of their own team."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import HTTPException, Path, Query, Request
from fastapi.responses import StreamingResponse
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from pydantic import BaseModel, Field

from posthouse.server import Access, Permission, allow, api_router, file_body
from vision import paths
from vision.handlers import about, clip_generate, sample, transcode
from vision.options import PADDING_MS, ClipId, Milliseconds, ReadingOptions
from vision.reading import UnknownLanguage, refuse_unknown
from vision.settings import most_upload_bytes
from vision.statements import statement
from vision.storage import S3ObjectNotFound, storage
from vision.texts import parse_query

UPLOAD_SECONDS = 24 * 3600
router = api_router("/vision", "vision")
Reader = Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, of_tenants=True)]
VideoId = Annotated[UUID, Path(description="Id of the video.")]
ClipName = Annotated[ClipId, Path(description="Id of the clip.")]
Limit = Annotated[int, Query(ge=1, le=500, description="Page size.")]
Offset = Annotated[int, Query(ge=0, le=100_000, description="Rows to skip.")]
Rows = list[dict[str, Any]]


class NewVideo(BaseModel):
    """A video to register."""

    title: str = Field(default="", max_length=500, description="Title of the video.")
    options: ReadingOptions = Field(default=ReadingOptions(), description="How to read the video.")


class NewClip(BaseModel):
    """A clip to create."""

    video_id: UUID = Field(description="Id of the video.")
    t_start: Milliseconds = Field(description="Start of the clip in milliseconds.")
    t_end: Milliseconds = Field(description="End of the clip in milliseconds.")
    padding_ms: Milliseconds = Field(
        default=PADDING_MS, description="Milliseconds to add before the start and after the end."
    )
    clip_id: ClipId | None = Field(default=None, description="Id of the clip; default: a generated one.")


@router.post("/videos", status_code=201)
async def register_video(new: NewVideo, access: Writer) -> dict[str, Any]:
    """Register a video.

    Returns where to upload the original. Processing starts after `PUT /videos/{video_id}/original`, after
    `POST /videos/{video_id}/uploaded`, or when the scanner finds the file in the storage.
    """
    _check_languages(new.options)
    access = access.writer()
    video_id = uuid4()
    path = paths.original(video_id)
    about_it = {"id": video_id, "team": access.whose, "owner": access.actor, "title": new.title, "path": path}
    async with access.session() as db:
        options = Jsonb(new.options.model_dump())
        await db.execute(statement("video_register"), {**about_it, "options": options})
    url = await asyncio.to_thread(storage().upload_url, path, UPLOAD_SECONDS)
    return {"video_id": video_id, "s3_original_path": path, "upload_url": url}


@router.put("/videos/{video_id}/original", status_code=204)
async def upload_original(video_id: VideoId, request: Request, access: Writer) -> None:
    """Upload the original of a video and start its processing.

    For storage without an `upload_url`, such as a folder.
    """
    video = await show_video(video_id, access)
    if video["status"] != "uploading":
        raise HTTPException(
            409, f"video {video_id} already has an original; register a new video to upload another"
        )
    await storage().receive(video["s3_original_path"], file_body(request, most_upload_bytes()))
    await _start(access, video)


@router.post("/videos/{video_id}/uploaded", status_code=202)
async def start_uploaded(video_id: VideoId, access: Writer) -> dict[str, Any]:
    """Start the processing of an uploaded video.

    For files that were uploaded to the `upload_url`. Without this request the scanner finds the file within
    about a minute.
    """
    video = await show_video(video_id, access)
    path = video["s3_original_path"]
    if not await asyncio.to_thread(storage().exists, path):
        raise HTTPException(409, f"video {video_id} has no original at {path}; upload the file first")
    await _start(access, video)
    return {"video_id": video_id, "status": "processing"}


@router.get("/videos")
async def list_videos(access: Reader, limit: Limit = 50, offset: Offset = 0) -> Rows:
    """List videos, newest first."""
    return await _rows(access, "videos_list", video=None, limit=limit, offset=offset)


@router.get("/videos/{video_id}")
async def show_video(video_id: VideoId, access: Reader) -> dict[str, Any]:
    """Get a video and its current stage."""
    return _one(await _rows(access, "videos_list", video=video_id, limit=1, offset=0), "video")


@router.get("/videos/{video_id}/segments")
async def list_segments(video_id: VideoId, access: Reader, limit: Limit = 100, offset: Offset = 0) -> Rows:
    """List the text segments of a video, in order."""
    await show_video(video_id, access)
    return await _rows(access, "segments_list", video=video_id, limit=limit, offset=offset)


@router.get("/videos/{video_id}/jobs")
async def list_jobs(video_id: VideoId, access: Reader, limit: Limit = 50, offset: Offset = 0) -> Rows:
    """List the jobs of a video, newest first.

    The payload of a failed job has the `error`, and its `original_payload` beside it.
    """
    await show_video(video_id, access)
    return await _rows(access, "jobs_list", video=video_id, limit=limit, offset=offset)


@router.post("/videos/{video_id}/sample", status_code=202)
async def sample_again(video_id: VideoId, wanted: ReadingOptions, access: Writer) -> dict[str, Any]:
    """Read a video again with other options.

    Not allowed while the video is being processed, because its frames are replaced.
    """
    _check_languages(wanted)
    video = await show_video(video_id, access)
    if video["status"] == "uploading" or video["stage_status"] in {"queued", "running"}:
        raise HTTPException(
            409, f"the video is at {video['stage'] or 'upload'}; wait until that stage has finished"
        )
    access = access.of(video["team_id"])
    payload = {"video_id": video_id, "s3_original_path": video["s3_original_path"]}
    chosen = {"target_fps": wanted.target_fps, "dedupe_threshold": wanted.dedupe_threshold}
    async with access.session() as db:
        options = {"video": video_id, "options": Jsonb(wanted.model_dump())}
        await db.execute(statement("video_options"), options)
        signed = sample.using(**_signed(access, sample, video_id))
        job = await signed.enqueue(connection=db, **payload, **chosen)
    return {"job_id": job.id, "outcome": job.outcome}


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
    return await _rows(access, "search", words=words, terms=terms, video=video_id, limit=limit, offset=offset)


@router.post("/clips", status_code=202)
async def create_clip(new: NewClip, access: Writer) -> dict[str, Any]:
    """Create a clip from a part of a video."""
    if new.t_end < new.t_start:
        raise HTTPException(422, f"t_end ({new.t_end}) must not be before t_start ({new.t_start})")
    video = await show_video(new.video_id, access)
    access = access.of(video["team_id"])
    clip_id = new.clip_id or str(uuid4())
    times = {"t_start": new.t_start, "t_end": new.t_end, "padding_ms": new.padding_ms}
    payload = {"video_id": new.video_id, "clip_id": clip_id, "s3_original_path": video["s3_original_path"]}
    async with access.session() as db:
        row = {"video": new.video_id, "clip": clip_id, "team": access.whose, **times}
        await db.execute(statement("clip_ask"), row)
        signed = _signed(access, clip_generate, new.video_id)
        signed["dedupe_key"] += f":{clip_id}"
        await clip_generate.using(**signed).enqueue(connection=db, **payload, **times)
    return {"clip_id": clip_id, "status": "queued"}


@router.get("/clips/{video_id}/{clip_id}")
async def show_clip(video_id: VideoId, clip_id: ClipName, access: Reader) -> dict[str, Any]:
    """Get a clip and its status."""
    return _one(await _rows(access, "clip_show", video=video_id, clip=clip_id), "clip")


@router.get("/clips/{video_id}/{clip_id}/file")
async def clip_file(video_id: VideoId, clip_id: ClipName, access: Reader) -> StreamingResponse:
    """Download a clip."""
    await show_clip(video_id, clip_id, access)
    return await _file(paths.clip(video_id, clip_id), "video/mp4")


@router.get("/videos/{video_id}/poster.jpg")
async def poster(video_id: VideoId, access: Reader) -> StreamingResponse:
    """Download the poster image of a video."""
    await show_video(video_id, access)
    return await _file(paths.poster(video_id), "image/jpeg")


@router.get("/videos/{video_id}/hls/{name}")
async def hls(
    video_id: VideoId,
    name: Annotated[
        str, Path(pattern=r"^(index\.m3u8|segment_\d+\.ts)$", description="index.m3u8, or a segment of it.")
    ],
    access: Reader,
) -> StreamingResponse:
    """Download the HLS playlist or a segment of a video."""
    await show_video(video_id, access)
    kind = "application/vnd.apple.mpegurl" if name == paths.PLAYLIST else "video/mp2t"
    return await _file(f"{paths.proxy(video_id)}/{name}", kind)


async def _start(access: Access, video: dict[str, Any]) -> None:
    """Enqueue the first stage of an uploaded video, unless the scanner was faster."""
    access, video_id = access.of(video["team_id"]), video["video_id"]
    payload = {"video_id": video_id, "s3_original_path": video["s3_original_path"]}
    async with access.session() as db:
        started = await (await db.execute(statement("video_start"), {"video": video_id})).fetchone()
        if started and started[0]:
            await transcode.using(**_signed(access, transcode, video_id)).enqueue(connection=db, **payload)


async def _rows(access: Access, name: str, **parameters: Any) -> Rows:
    async with access.session() as db, db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement(name), {"team": access.whose, **parameters})
        return await cursor.fetchall()


def _one(rows: Rows, what: str) -> dict[str, Any]:
    if not rows:
        raise HTTPException(404, f"{what} not found")
    return rows[0]


async def _file(path: str, kind: str) -> StreamingResponse:
    """Stream a file. The first chunk is read before the response starts, so that 404 is still possible."""
    chunks = storage().chunks(path)
    try:
        first = await asyncio.to_thread(next, chunks, b"")
    except S3ObjectNotFound:
        raise HTTPException(404, f"file {path} does not exist") from None

    def whole() -> Iterator[bytes]:
        yield first
        yield from chunks

    as_it_is = {"Content-Encoding": "identity"}  # the content is already compressed
    return StreamingResponse(whole(), media_type=kind, headers=as_it_is)


def _signed(access: Access, kind: Any, video_id: UUID) -> Any:
    return {**about(kind, video_id), "correlation_id": str(video_id), "created_by": access.actor}


def _check_languages(options: ReadingOptions) -> None:
    try:
        refuse_unknown(options.languages)
    except UnknownLanguage as error:
        raise HTTPException(422, str(error)) from None
