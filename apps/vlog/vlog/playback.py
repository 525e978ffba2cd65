"""Links to the output of a video, and the files that they lead to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import HTTPException, Request
from fastapi import Path as InPath
from fastapi.responses import Response

from posthouse.server import Access, Permission, allow_linked, api_router, file_route, local_file, signed_link
from vlog import settings
from vlog.handlers import library
from vlog.hls_package import MASTER, THUMBNAIL
from vlog.videos import VideoId, get_video_or_404

router = api_router("", "vlog")
_SUBJECT = "vlog/{video_id}/{links}"
_FILES = "/{video_id}/{links}/{link}/{version}/{path:path}"
_TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t", ".jpg": "image/jpeg"}


async def video_response(request: Request, video: dict[str, Any]) -> dict[str, Any]:
    """Return a video with links to its playlist and its thumbnail, and the seconds that they are valid."""
    if not video["playable"]:
        return {**video, "playlist": None, "thumbnail": None, "link_seconds": None}
    links, life = settings.playback_links(), settings.playback_link_lifetime()
    subject = _SUBJECT.format(video_id=video["id"], links=links)
    link = await signed_link(request, subject, tenant=video["tenant_id"], life=life)
    output = f"/api/videos/{video['id']}/{links}/{link}/{video['version']}"
    return {
        **video,
        "playlist": f"{output}/{MASTER}",
        "thumbnail": f"{output}/{THUMBNAIL}" if video["has_thumbnail"] else None,
        "link_seconds": life and life.total_seconds(),
    }


@file_route(router, _FILES)
async def play(
    request: Request,
    *,
    video_id: VideoId,
    links: Annotated[Literal["public", "signed"], InPath(description="Kind of the link.")],
    link: Annotated[str, InPath(description="Signature of the link, or `session` with a credential.")],
    version: Annotated[UUID, InPath(description="Id of the output.")],
    path: Annotated[str, InPath(description="Path of the file in the output.")],
    access: Annotated[Access, allow_linked(Permission.JOBS_READ, _SUBJECT)],
) -> Response:
    """Download a file of an output, or a range of its bytes.

    The master playlist, the playlists of the qualities and their segments. Links are those of the video;
    they need no credential.
    """
    if links == settings.PUBLIC != settings.playback_links():
        raise HTTPException(403, "links to videos are no longer public; request a new one")
    async with access.transaction() as db:
        video = await get_video_or_404(db, video_id)
    file = await asyncio.to_thread(_find_file, library().output(video["slug"], str(version)), path)
    if file is None:
        raise HTTPException(404, f"file {path!r} does not exist in output {version} of video {video_id}")
    answer = await local_file(request, file, _TYPES.get(file.suffix, "application/octet-stream"))
    if link != "session":
        answer.headers["Access-Control-Allow-Origin"] = "*"  # for players on other sites
    return answer


def _find_file(folder: Path, path: str) -> Path | None:
    try:
        file = (folder / path).resolve()
        return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except (ValueError, OSError):  # a NUL character, or a name that no file can have
        return None
