"""Routes of media files: for callers with a credential, and for players with a signed link.

All support HTTP Range. `{link}` is a signed link, or `session` with a credential.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from posthouse.server import Access, Permission, allow_linked, file_route, signed_link, stored_file
from vision import paths
from vision.requests import ClipName, Reader, VideoId, get_clip_or_404, get_video_or_404
from vision.storage import storage

SUBJECT = "vision/video/{video_id}"
MAX_SECONDS = 7 * 24 * 3600
Viewer = Annotated[Access, allow_linked(Permission.JOBS_READ, SUBJECT)]
router = APIRouter()


class NewLink(BaseModel):
    """A link to create."""

    model_config = ConfigDict(extra="forbid")

    seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] = Field(
        default=24 * 3600, description="Seconds until the link expires; at most 7 days."
    )


@router.post("/videos/{video_id}/links", status_code=201)
async def create_link(video_id: VideoId, new: NewLink, request: Request, access: Reader) -> dict[str, Any]:
    """Create links to the media that need no credential.

    They expire, and end when the video is deleted. `media` is the base of the other paths: pictures and clips
    are below it too.
    """
    video = await get_video_or_404(access, video_id)
    lifetime = timedelta(seconds=new.seconds)
    expires_at = datetime.fromtimestamp(int(time.time()), UTC) + lifetime
    link = await signed_link(
        request, SUBJECT.format(video_id=video_id), tenant=video["team_id"], life=lifetime
    )
    base = f"{request.scope.get('root_path', '')}/vision/media/{link}/{video_id}"
    return {
        "expires_at": expires_at,
        "media": base,
        "stream": f"{base}/hls/{paths.PLAYLIST}",
        "poster": f"{base}/poster.jpg",
    }


@file_route(router, "/media/{link}/{video_id}/hls/{name}")
async def hls(
    video_id: VideoId,
    name: Annotated[
        str, Path(pattern=r"^(index\.m3u8|segment_\d+\.ts)$", description="index.m3u8, or a segment of it.")
    ],
    request: Request,
    access: Viewer,
) -> Response:
    """Download the HLS playlist or a segment of a video."""
    await get_video_or_404(access, video_id)
    kind = "application/vnd.apple.mpegurl" if name == paths.PLAYLIST else "video/mp2t"
    return await stored_file(request, storage(), f"{paths.proxy(video_id)}/{name}", kind)


@file_route(router, "/media/{link}/{video_id}/clips/{clip_id}.mp4")
async def clip_file(video_id: VideoId, clip_id: ClipName, request: Request, access: Viewer) -> Response:
    """Download a clip."""
    await get_clip_or_404(access, video_id, clip_id)
    return await stored_file(request, storage(), paths.clip(video_id, clip_id), "video/mp4")


@file_route(router, "/media/{link}/{video_id}/{name}.jpg")
async def picture(
    video_id: VideoId,
    name: Annotated[
        str, Path(pattern=r"^(poster|\d{1,10})$", description="poster, or the t_start of a segment.")
    ],
    request: Request,
    access: Viewer,
) -> Response:
    """Download the poster of a video, or a picture of a text.

    The picture of a text is small, and of the moment at which the text begins.
    """
    await get_video_or_404(access, video_id)
    return await stored_file(request, storage(), f"{paths.thumbs(video_id)}/{name}.jpg", "image/jpeg")
