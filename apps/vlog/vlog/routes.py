"""What people ask of the library over HTTP. What workers ask is served by Posthouse itself."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from posthouse.server import Access, Permission, allow
from vlog import intake, settings
from vlog.handlers import discard, library
from vlog.package import MASTER
from vlog.queries import query
from vlog.rows import Db, one, rows

router = APIRouter(prefix="/api/videos", tags=["vlog"])
Reader = Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, of_tenants=True)]
Title = Annotated[str, Query(min_length=1, max_length=300)]
SUFFIXES = {".mp4", ".mkv", ".mov", ".webm", ".avi", ".m4v", ".ts"}
ACTIVE = {"pending", "processing"}


class Retranscode(BaseModel):
    """Which qualities to make again; without any, all that the library makes."""

    model_config = ConfigDict(extra="forbid")

    qualities: Annotated[list[str] | None, Field(max_length=20)] = None
    delete_transcription: bool = False


class Transcription(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(max_length=1_000_000)]


@router.post("", status_code=201)
async def upload(
    request: Request, access: Writer, title: Title, filename: Annotated[str, Query(max_length=300)]
) -> dict[str, Any]:
    """Add a video; the body is the file. It is there with its job, or not at all."""
    suffix = Path(filename).suffix.lower()
    if suffix not in SUFFIXES:
        raise HTTPException(415, f"{filename!r} is none of {', '.join(sorted(SUFFIXES))}")
    arrived = await intake.receive(request)
    try:
        async with access.writer().session() as db:
            video_id, slug = await intake.add(db, title)
            source = arrived.with_name(f"{video_id}{suffix}")
            arrived = await asyncio.to_thread(arrived.replace, source)
            video = {"id": video_id, "slug": slug, "source": source.name}
            await intake.start(db, video, settings.qualities())
            return await _found(db, video_id)
    except BaseException:
        await asyncio.to_thread(arrived.unlink, missing_ok=True)
        raise


@router.get("")
async def videos(
    access: Reader,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(description="Older than this id.")] = None,
) -> list[dict[str, Any]]:
    """The newest videos."""
    async with access.session() as db:
        found = await rows(db, "videos_list", id=None, before=before, limit=limit)
    return [_shown(video) for video in found]


@router.get("/{video_id}")
async def video(video_id: int, access: Reader) -> dict[str, Any]:
    """A video, with its qualities and its status."""
    async with access.session() as db:
        return await _found(db, video_id)


@router.get("/{video_id}/progress")
async def progress(video_id: int, access: Reader) -> dict[str, Any]:
    """Its newest job, and how far each quality is."""
    async with access.session() as db:
        found = await _found(db, video_id)
        job = await one(db, "transcoding_job", id=video_id)
        return {
            "status": found["status"],
            "job": job,
            "qualities": await rows(db, "quality_progress", id=video_id),
        }


@router.post("/{video_id}/retranscode", status_code=202)
async def retranscode(video_id: int, asked: Retranscode, access: Writer) -> dict[str, Any]:
    """Make qualities again. What there is stays until what is new has been looked at and takes its place."""
    qualities = intake.checked(asked.qualities or settings.qualities())
    async with access.writer().session() as db:
        video = await _locked(db, video_id)
        found = await _found(db, video_id)
        if _has_work(found):
            raise HTTPException(409, f"video {video_id} has a job that has not ended: {video['job_id']}")
        await db.execute(query("job_cancel"), {"id": video["publish_id"], "actor": access.actor})
        there = [item["quality"] for item in found["qualities"]]
        again = [name for name in there if asked.qualities is None or name in qualities]
        metadata = {
            "retranscode_all": asked.qualities is None,
            "qualities_to_delete": again,
            "delete_transcription": asked.delete_transcription,
            "video_dir": str(library().videos / video["slug"]),
        }
        keep = [name for name in there if name not in again]
        await intake.start(db, video, qualities, keep=keep, retranscode_metadata=json.dumps(metadata))
        return await _found(db, video_id)


@router.put("/{video_id}/transcription", status_code=204)
async def transcription(video_id: int, given: Transcription, access: Writer) -> None:
    """Keep the spoken text of a video with it."""
    async with access.writer().session() as db:
        if await one(db, "transcription_keep", id=video_id, content=given.content) is None:
            raise _missing(video_id)


@router.delete("/{video_id}", status_code=204)
async def delete(video_id: int, access: Writer) -> None:
    """Remove a video, end its jobs and free its space."""
    async with access.writer().session() as db:
        video = await _locked(db, video_id)
        await db.execute(query("video_delete"), {"id": video_id, "actor": access.actor})
        await discard.enqueue(connection=db, slug=video["slug"], source=video["source"])


@router.get("/{video_id}/hls/{version}/{path:path}", response_class=FileResponse)
async def hls(video_id: int, version: UUID, path: str, access: Reader) -> FileResponse:
    """A file of an output: its master playlist, and what that leads to."""
    async with access.session() as db:
        found = await _found(db, video_id)
    folder = library().output(found["slug"], str(version))
    file = await asyncio.to_thread(_inside, folder, path)
    if file is None:
        raise HTTPException(404, f"there is no {path!r} in this output")
    return FileResponse(file, media_type=_TYPES.get(file.suffix, "application/octet-stream"))


_TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t", ".jpg": "image/jpeg"}


def _inside(folder: Path, path: str) -> Path | None:
    file = (folder / path).resolve()
    return file if file.is_relative_to(folder.resolve()) and file.is_file() else None


def _has_work(video: dict[str, Any]) -> bool:
    """Whether its newest job has not ended; one that waits to make a ready video again counts."""
    waits = video["status"] == "ready" and video["version"] != str(video["job_id"])
    return waits or video["status"] in ACTIVE


async def _locked(db: Db, video_id: int) -> dict[str, Any]:
    found = await one(db, "video_lock", id=video_id)
    if found is None:
        raise _missing(video_id)
    return found


async def _found(db: Db, video_id: int) -> dict[str, Any]:
    found = await one(db, "videos_list", id=video_id, before=None, limit=1)
    if found is None:
        raise _missing(video_id)
    return _shown(found)


def _missing(video_id: int) -> HTTPException:
    return HTTPException(404, f"there is no video {video_id}")


def _shown(video: dict[str, Any]) -> dict[str, Any]:
    version = video["version"]
    where = f"/api/videos/{video['id']}/hls/{version}/{MASTER}" if version else None
    return {**video, "version": version and str(version), "playable": version is not None, "playlist": where}
