"""Routes of media files. All support HTTP Range."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from posthouse.server import stored_file
from vision import paths
from vision.requests import ClipName, Reader, VideoId, found_clip, found_video
from vision.storage import storage

FILE = ["GET", "HEAD"]
router = APIRouter()


@router.api_route("/clips/{video_id}/{clip_id}/file", methods=FILE)
async def clip_file(video_id: VideoId, clip_id: ClipName, request: Request, access: Reader) -> Response:
    """Download a clip."""
    await found_clip(access, video_id, clip_id)
    return await stored_file(request, storage(), paths.clip(video_id, clip_id), "video/mp4")


@router.api_route("/videos/{video_id}/{name}.jpg", methods=FILE)
async def picture(
    video_id: VideoId,
    name: Annotated[
        str, Path(pattern=r"^(poster|\d{1,10})$", description="poster, or the t_start of a segment.")
    ],
    request: Request,
    access: Reader,
) -> Response:
    """Download the poster of a video, or a small picture of a moment at which a text begins."""
    await found_video(access, video_id)
    return await stored_file(request, storage(), f"{paths.thumbs(video_id)}/{name}.jpg", "image/jpeg")


@router.api_route("/videos/{video_id}/hls/{name}", methods=FILE)
async def hls(
    video_id: VideoId,
    name: Annotated[
        str, Path(pattern=r"^(index\.m3u8|segment_\d+\.ts)$", description="index.m3u8, or a segment of it.")
    ],
    request: Request,
    access: Reader,
) -> Response:
    """Download the HLS playlist or a segment of a video."""
    await found_video(access, video_id)
    kind = "application/vnd.apple.mpegurl" if name == paths.PLAYLIST else "video/mp2t"
    return await stored_file(request, storage(), f"{paths.proxy(video_id)}/{name}", kind)
