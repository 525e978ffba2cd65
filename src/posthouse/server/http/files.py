"""Files as responses, whole or by range: files of applications, and artifacts.

Routes of applications that return files are declared with ``file_route``. A browser that has the current file
gets a response without a body. At most a few chunks are in memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from posthouse.blobs import BlobStore, NotStored, Storage
from posthouse.server.http.problems import problem

CHUNK_BYTES = 256 * 1024


class _File(NamedTuple):
    size: int
    etag: str
    media_type: str
    attachment: str | None


_Read = Callable[[int, int], Awaitable[AsyncIterator[bytes]]]
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


def file_route(router: APIRouter, path: str) -> Callable[[_Endpoint], _Endpoint]:
    """Declare a route that returns a file: GET, and HEAD, which the OpenAPI document does not repeat."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        router.get(path, response_class=Response)(endpoint)
        router.head(path, include_in_schema=False)(endpoint)
        return endpoint

    return declare


async def stored_file(
    request: Request, storage: Storage, path: str, media_type: str, *, attachment: str | None = None
) -> Response:
    """Return a file of a storage; 404 if it does not exist.

    - ``attachment``: name under which browsers save the file instead of showing it.
    """

    async def read(start: int, end: int) -> AsyncIterator[bytes]:
        return await storage.stream(path, start, end)

    try:
        stored = await storage.about_async(path)
        return await _respond(request, _File(stored.size, stored.etag, media_type, attachment), read)
    except NotStored:
        raise _not_found() from None


async def local_file(
    request: Request, file: Path, media_type: str, *, attachment: str | None = None
) -> Response:
    """Return a local file; 404 if it does not exist. The caller checks that the path is allowed.

    - ``attachment``: name under which browsers save the file instead of showing it.
    """

    async def read(start: int, end: int) -> AsyncIterator[bytes]:
        return _pieces(file, start, end)

    if not await asyncio.to_thread(file.is_file):
        raise _not_found()
    stored = await asyncio.to_thread(file.stat)
    etag = f'"{stored.st_mtime_ns:x}-{stored.st_size:x}"'
    return await _respond(request, _File(stored.st_size, etag, media_type, attachment), read)


async def _respond(request: Request, file: _File, read: _Read) -> Response:
    headers = _headers(file)
    if file.etag and request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    found = byte_range(_range_header(request, file.etag), file.size)
    if found is None:
        response = problem(416, "range_not_satisfiable", f"invalid Range: the file has {file.size} bytes")
        response.headers["Content-Range"] = f"bytes */{file.size}"
        return response
    start, end, is_partial = found
    headers["Content-Length"] = str(end - start)
    if is_partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    status = 206 if is_partial else 200
    if request.method == "HEAD" or start == end:
        return Response(status_code=status, headers=headers, media_type=file.media_type)
    return StreamingResponse(await read(start, end), status, headers, file.media_type)


def _headers(file: _File) -> dict[str, str]:
    """Return the headers.

    Browsers store the file but revalidate it, so that a deleted file is no longer shown.
    """
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Security-Policy": "sandbox",  # stored content can be anything
        "X-Content-Type-Options": "nosniff",
    }
    if file.etag:
        headers["ETag"] = file.etag
    if file.attachment is not None:
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(file.attachment, safe='')}"
    return headers


def _range_header(request: Request, etag: str) -> str | None:
    """Return the Range header, unless it continues a download of a file that has been replaced."""
    condition = request.headers.get("if-range")
    return request.headers.get("range") if condition in {None, etag} else None


async def _pieces(file: Path, start: int, end: int) -> AsyncIterator[bytes]:
    # Not in a thread: if the request were canceled meanwhile, the file would stay open.
    with file.open("rb") as content:
        content.seek(start)
        while start < end and (piece := await asyncio.to_thread(content.read, min(CHUNK_BYTES, end - start))):
            start += len(piece)
            yield piece


def _not_found() -> HTTPException:
    return HTTPException(404, "the file does not exist")


_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class ByteRange(NamedTuple):
    """Start and end of the bytes to send, and whether the request named a range."""

    start: int
    end: int
    is_partial: bool = True


def byte_range(range_header: str | None, size: int) -> ByteRange | None:
    """Return the range to send; None if it is empty. Unsupported Range headers mean all bytes."""
    match = _RANGE.fullmatch(range_header or "")
    if match is None or not (match[1] or match[2]):
        return ByteRange(0, size, is_partial=False)
    start = int(match[1]) if match[1] else max(0, size - int(match[2]))
    end = min(size, int(match[2]) + 1) if match[1] and match[2] else size
    return ByteRange(start, end) if start < end else None


def download(store: BlobStore, artifact: dict[str, Any], range_header: str | None) -> Response:
    """Return an artifact as an attachment. Browsers must never render it: jobs can store any content."""
    size = artifact["size"]
    headers = {
        "ETag": f'"{artifact["sha256"]}"',
        "X-Content-SHA256": artifact["sha256"],
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(artifact['name'].rpartition('/')[2])}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    found = byte_range(range_header, size)
    if found is None:
        response = problem(
            416, "range_not_satisfiable", f"invalid Range {range_header!r}: the artifact has {size} bytes"
        )
        response.headers["X-Content-SHA256"] = artifact["sha256"]
        response.headers["Content-Range"] = f"bytes */{size}"
        return response
    start, end, is_partial = found
    if is_partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return StreamingResponse(
        store.read(artifact["blob_key"], start, end - start),
        206 if is_partial else 200,
        {**headers, "Content-Length": str(end - start)},
        artifact["content_type"],
    )
