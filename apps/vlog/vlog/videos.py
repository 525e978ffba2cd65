"""Videos as the API returns them, without links to their media."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import HTTPException
from fastapi import Path as InPath

from vlog.db import Db, fetch_all, fetch_one

VideoId = Annotated[int, InPath(description="Id of the video.")]


async def get_video_or_404(db: Db, video_id: int) -> dict[str, Any]:
    """Return a video. Raises 404."""
    found = await fetch_one(db, "videos_list", id=video_id, before=None, title=None, limit=1)
    if found is None:
        raise video_not_found(video_id)
    return _to_response(found)


async def fetch_videos(db: Db, before: int | None, title: str | None, limit: int) -> list[dict[str, Any]]:
    found = await fetch_all(db, "videos_list", id=None, before=before, title=title, limit=limit)
    return [_to_response(row) for row in found]


def video_not_found(video_id: int) -> HTTPException:
    return HTTPException(404, f"video {video_id} does not exist")


def _to_response(row: dict[str, Any]) -> dict[str, Any]:
    version = row["version"] and str(row["version"])
    return {**row, "version": version, "playable": version is not None}
