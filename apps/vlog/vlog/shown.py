"""Videos as the API returns them."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException

from vlog.package import MASTER, THUMBNAIL
from vlog.rows import Db, one


async def found_video(db: Db, video_id: int) -> dict[str, Any]:
    """Return a video. Raises 404."""
    found = await one(db, "videos_list", id=video_id, before=None, limit=1)
    if found is None:
        raise no_video(video_id)
    return shown(found)


def no_video(video_id: int) -> HTTPException:
    return HTTPException(404, f"video {video_id} does not exist")


def shown(video: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the addresses of its playlist and its thumbnail."""
    version = video["version"] and str(video["version"])
    output = f"/api/videos/{video['id']}/hls/{version}"
    has_thumbnail = version and video["has_thumbnail"]
    return {
        **video,
        "version": version,
        "playable": version is not None,
        "playlist": f"{output}/{MASTER}" if version else None,
        "thumbnail": f"{output}/{THUMBNAIL}" if has_thumbnail else None,
    }
