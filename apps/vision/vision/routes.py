"""The application over HTTP, beside Posthouse's own API. Everybody sees the videos of their own team."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import StreamingResponse
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from pydantic import BaseModel, Field

from posthouse.server import Access, Permission, allow, file_body
from vision import paths
from vision.handlers import about, clip_generate, sample
from vision.options import PADDING_MS, ClipId, Milliseconds, ReadingOptions
from vision.reading import UnknownLanguage, refuse_unknown
from vision.settings import most_upload_bytes
from vision.statements import statement
from vision.storage import S3ObjectNotFound, storage
from vision.texts import parse_query

UPLOAD_SECONDS = 24 * 3600
router = APIRouter(prefix="/vision", tags=["vision"])
Reader = Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, of_tenants=True)]
Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=100_000)]
Rows = list[dict[str, Any]]


class NewVideo(BaseModel):
    title: str = Field(default="", max_length=500)
    options: ReadingOptions = ReadingOptions()


class NewClip(BaseModel):
    video_id: UUID
    t_start: Milliseconds
    t_end: Milliseconds
    padding_ms: Milliseconds = PADDING_MS
    clip_id: ClipId | None = None


@router.post("/videos", status_code=201)
async def register_video(new: NewVideo, access: Writer) -> dict[str, Any]:
    """Says where to put the original. When it is there, the scanner starts with it."""
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
async def upload_original(video_id: UUID, request: Request, access: Writer) -> None:
    """Takes the original itself, where there is no upload_url."""
    video = await show_video(video_id, access)
    if video["status"] != "uploading":
        raise HTTPException(409, "its original is there already")
    await storage().receive(video["s3_original_path"], file_body(request, most_upload_bytes()))


@router.get("/videos")
async def list_videos(access: Reader, limit: Limit = 50, offset: Offset = 0) -> Rows:
    """Newest first."""
    return await _rows(access, "videos_list", video=None, limit=limit, offset=offset)


@router.get("/videos/{video_id}")
async def show_video(video_id: UUID, access: Reader) -> dict[str, Any]:
    """A video, and the stage that it is at."""
    return _one(await _rows(access, "videos_list", video=video_id, limit=1, offset=0), "video")


@router.get("/videos/{video_id}/segments")
async def list_segments(video_id: UUID, access: Reader, limit: Limit = 100, offset: Offset = 0) -> Rows:
    """What was read in it, in order."""
    await show_video(video_id, access)
    return await _rows(access, "segments_list", video=video_id, limit=limit, offset=offset)


@router.post("/videos/{video_id}/sample", status_code=202)
async def sample_again(video_id: UUID, wanted: ReadingOptions, access: Writer) -> dict[str, Any]:
    """Reads a video again, in another way. Not while it is being read: the frames are replaced."""
    _check_languages(wanted)
    video = await show_video(video_id, access)
    if video["status"] == "uploading" or video["stage_status"] in {"queued", "running"}:
        raise HTTPException(
            409, f"the video is at {video['stage'] or 'its upload'}: wait until that has ended"
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
    q: Annotated[str, Query(min_length=1, max_length=500)],
    video_id: UUID | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Rows:
    """Where a text is seen: words or their beginnings, @mention, #hashtag, a URL, a number, together."""
    words, terms = parse_query(q)
    return await _rows(access, "search", words=words, terms=terms, video=video_id, limit=limit, offset=offset)


@router.post("/clips", status_code=202)
async def create_clip(new: NewClip, access: Writer) -> dict[str, Any]:
    """Asks for a part of a video as a file of its own."""
    if new.t_end < new.t_start:
        raise HTTPException(422, "t_end is before t_start")
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
async def show_clip(video_id: UUID, clip_id: ClipId, access: Reader) -> dict[str, Any]:
    """How it stands, and where it is."""
    return _one(await _rows(access, "clip_show", video=video_id, clip=clip_id), "clip")


@router.get("/clips/{video_id}/{clip_id}/file")
async def clip_file(video_id: UUID, clip_id: ClipId, access: Reader) -> StreamingResponse:
    """The clip itself."""
    await show_clip(video_id, clip_id, access)
    return await _file(paths.clip(video_id, clip_id), "video/mp4")


@router.get("/videos/{video_id}/poster.jpg")
async def poster(video_id: UUID, access: Reader) -> StreamingResponse:
    """The picture that stands for it."""
    await show_video(video_id, access)
    return await _file(paths.poster(video_id), "image/jpeg")


@router.get("/videos/{video_id}/hls/{name}")
async def hls(
    video_id: UUID, name: Annotated[str, Path(pattern=r"^(index\.m3u8|segment_\d+\.ts)$")], access: Reader
) -> StreamingResponse:
    """Its stream: index.m3u8, and the segments that this names."""
    await show_video(video_id, access)
    kind = "application/vnd.apple.mpegurl" if name == paths.PLAYLIST else "video/mp2t"
    return await _file(f"{paths.proxy(video_id)}/{name}", kind)


async def _rows(access: Access, name: str, **parameters: Any) -> Rows:
    async with access.session() as db, db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement(name), {"team": access.whose, **parameters})
        return await cursor.fetchall()


def _one(rows: Rows, what: str) -> dict[str, Any]:
    if not rows:
        raise HTTPException(404, f"there is no such {what}")
    return rows[0]


async def _file(path: str, kind: str) -> StreamingResponse:
    """A piece at a time. The first is read before the answer begins, so that there can still be a 404."""
    chunks = storage().chunks(path)
    try:
        first = await asyncio.to_thread(next, chunks, b"")
    except S3ObjectNotFound:
        raise HTTPException(404, f"there is no file at {path}") from None

    def whole() -> Iterator[bytes]:
        yield first
        yield from chunks

    as_it_is = {"Content-Encoding": "identity"}  # else the server would try to compress what is
    return StreamingResponse(whole(), media_type=kind, headers=as_it_is)


def _signed(access: Access, kind: Any, video_id: UUID) -> Any:
    return {**about(kind, video_id), "correlation_id": str(video_id), "created_by": access.actor}


def _check_languages(options: ReadingOptions) -> None:
    try:
        refuse_unknown(options.languages)
    except UnknownLanguage as error:
        raise HTTPException(422, str(error)) from None
