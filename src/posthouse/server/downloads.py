"""Downloads of artifacts, whole or by range."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import StreamingResponse

from posthouse.blobs import Store
from posthouse.server.problems import problem
from posthouse.server.ranges import byte_range


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
    found = byte_range(asked, size)
    if found is None:
        refused = problem(
            416, "range_not_satisfiable", f"invalid Range {asked!r}: the artifact has {size} bytes"
        )
        refused.headers["X-Content-SHA256"] = artifact["sha256"]
        refused.headers["Content-Range"] = f"bytes */{size}"
        return refused
    start, end, is_partial = found
    if is_partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return StreamingResponse(
        store.read(artifact["place"], start, end - start),
        206 if is_partial else 200,
        {**headers, "Content-Length": str(end - start)},
        artifact["content_type"],
    )
