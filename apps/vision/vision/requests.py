"""What the routes share: parameters, and rows that the caller may see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import HTTPException, Path
from psycopg.rows import dict_row
from pydantic import BaseModel, Field

from posthouse.server import Access, Permission, allow
from vision.db import sql
from vision.options import PADDING_MS, ClipId, Milliseconds, ReadingOptions

Reader = Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]
VideoId = Annotated[UUID, Path(description="Id of the video.")]
ClipName = Annotated[ClipId, Path(description="Id of the clip.")]
Rows = list[dict[str, Any]]
EMPTY = "the file is empty; upload a video file"


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


async def fetch_all(access: Access, name: str, **parameters: Any) -> Rows:
    async with access.transaction() as db, db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(sql(name), {"team": access.tenant, **parameters})
        return await cursor.fetchall()


async def get_video_or_404(access: Access, video_id: UUID) -> dict[str, Any]:
    return _first_or_404(await fetch_all(access, "videos_list", video=video_id, limit=1, offset=0), "video")


async def get_clip_or_404(access: Access, video_id: UUID, clip_id: str) -> dict[str, Any]:
    return _first_or_404(await fetch_all(access, "clip_show", video=video_id, clip=clip_id), "clip")


def _first_or_404(found: Rows, what: str) -> dict[str, Any]:
    if not found:
        raise HTTPException(404, f"{what} not found")
    return found[0]


async def reject_empty(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the content of an upload after its first bytes arrived: an empty one replaces nothing."""
    async for first in pieces:
        if first:
            return _prepended(first, pieces)
    raise HTTPException(422, EMPTY)


async def _prepended(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece
