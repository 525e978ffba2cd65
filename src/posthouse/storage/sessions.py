"""Console sessions in the database: a hash of the cookie, and the principal."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from posthouse.storage.queries import Db, call, fetch_rows, query


async def open_session(connection: Db, digest: bytes, whose: dict[str, Any], *, seconds: float) -> datetime:
    """Store a session and return its expiry. ``whose``: key_prefix, name, role, tenant_id, expires_at."""
    ends: datetime = await call(
        connection, "open_session", session=json.dumps(whose, default=str), hash=digest, seconds=seconds
    )
    return ends


async def find_session(connection: Db, digest: bytes) -> dict[str, Any] | None:
    found = await fetch_rows(connection, "session_find", hash=digest)
    return found[0] if found else None


async def close_session(connection: Db, digest: bytes) -> None:
    await connection.execute(query("session_close"), {"hash": digest})
