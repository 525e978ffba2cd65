"""Uploads of videos, and the jobs that process them."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi import HTTPException, Request

from posthouse.server import file_body
from vlog import ladder, settings
from vlog.db import Db, fetch_one, sql
from vlog.handlers import RETRY, library, publish, transcode

SUFFIXES = {".mp4", ".mkv", ".mov", ".webm", ".avi", ".m4v", ".ts"}


async def store_upload(request: Request) -> Path:
    """Store the request body in a temporary file."""
    folder = library().uploads
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    target = folder / f".{uuid4().hex}.part"
    try:
        with await asyncio.to_thread(target.open, "wb") as file:
            async for piece in file_body(request, settings.max_upload_bytes()):
                await asyncio.to_thread(file.write, piece)
            _reject_empty(file.tell())
    except BaseException:
        await asyncio.to_thread(target.unlink, missing_ok=True)
        raise
    return target


def _reject_empty(size: int) -> None:
    if not size:
        raise HTTPException(422, "the request body is empty; send the video file as body")


async def create_video(db: Db, title: str, file: Path, suffix: str) -> int:
    """Make an uploaded file a video and start its transcoding, in the current transaction."""
    video_id, slug = await _insert_video(db, title)
    source = file.with_name(f"{video_id}{suffix}")
    await asyncio.to_thread(file.replace, source)
    try:
        await start_transcoding(
            db, {"id": video_id, "slug": slug, "source": source.name}, settings.qualities()
        )
    except BaseException:
        await asyncio.to_thread(source.replace, file)
        raise
    return video_id


def validate_suffix(filename: str) -> str:
    suffix = Path(filename).suffix.lower()
    if suffix not in SUFFIXES:
        raise HTTPException(
            415, f"unsupported file type {filename!r}; supported: {', '.join(sorted(SUFFIXES))}"
        )
    return suffix


async def _insert_video(db: Db, title: str) -> tuple[int, str]:
    """Insert a video; return its id and its slug, made unique if the title is taken."""
    slug = _slug(title)
    for name in (slug, f"{slug}-{uuid4().hex[:8]}"):
        row = await fetch_one(db, "video_add", slug=name, title=title)
        if row is not None:
            return row["id"], name
    raise HTTPException(409, f"cannot create a unique slug for the title {title!r}; try another title")


def _slug(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80] or "video"


async def start_transcoding(
    db: Db,
    video: dict[str, Any],
    qualities: list[str],
    *,
    keep: list[str] | None = None,
    retranscode_metadata: str | None = None,
) -> None:
    """Enqueue the two jobs of a video in the current transaction: vlog.transcode, and vlog.publish, which
    depends on it and runs on a worker with access to the database.
    """
    subject, source = f"vlog/{video['id']}", video["source"]
    run = f"{subject}/{uuid4()}"
    transcoding = transcode.using(
        subject=subject,
        correlation_id=run,
        max_attempts=settings.max_attempts(),
        retry=RETRY,  # the definition is not stored before a worker with this code has started
    )
    if settings.requires():
        transcoding = transcoding.using(requires=settings.requires())
    critical = settings.critical_qualities()
    transcode_job = await transcoding.enqueue(
        connection=db, video_id=video["id"], source=source, qualities=validate_qualities(qualities),
        critical=validate_qualities(critical) if critical else critical,
    )  # fmt: skip
    await transcode_job.attach(library().source(source), source, connection=db)
    # It waits after a failure, so that a retry of the transcoding is published as well.
    publishing = publish.using(
        subject=subject, correlation_id=run, depends_on=[transcode_job.id], on_dependency_failure="wait"
    )
    publish_job = await publishing.enqueue(
        connection=db, video_id=video["id"], slug=video["slug"], transcode_id=str(transcode_job.id),
        replaces=video.get("version"), keep=keep,
    )  # fmt: skip
    parameters = {
        "id": video["id"],
        "source": source,
        "job_id": transcode_job.id,
        "publish_id": publish_job.id,
    }
    await db.execute(sql("video_start"), {**parameters, "retranscode_metadata": retranscode_metadata})


def validate_qualities(qualities: list[str]) -> list[str]:
    try:
        return ladder.validate_qualities(qualities)
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
