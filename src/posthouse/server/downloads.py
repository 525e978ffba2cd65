"""Downloads of artifacts, whole or by range."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import StreamingResponse

from posthouse.blobs import Store
from posthouse.server.problems import problem

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def download(store: Store, artifact: dict[str, Any], asked: str | None) -> Response:
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
    found = _range(asked, size)
    if found is None:
        refused = problem(
            416, "range_not_satisfiable", f"invalid Range {asked!r}: the artifact has {size} bytes"
        )
        refused.headers["X-Content-SHA256"] = artifact["sha256"]
        refused.headers["Content-Range"] = f"bytes */{size}"
        return refused
    start, end = found
    if (start, end) != (0, size):
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return StreamingResponse(
        store.read(artifact["place"], start, end - start),
        206 if "Content-Range" in headers else 200,
        {**headers, "Content-Length": str(end - start)},
        artifact["content_type"],
    )


def _range(asked: str | None, size: int) -> tuple[int, int] | None:
    """Return start and end; None if the range is empty. Unsupported Range headers mean the whole artifact."""
    match = _RANGE.fullmatch(asked or "")
    if match is None or not (match[1] or match[2]):
        return 0, size
    if not match[1]:
        return max(0, size - int(match[2])), size
    start = int(match[1])
    end = min(size, int(match[2]) + 1) if match[2] else size
    return (start, end) if start < end else None
