"""API keys and console sessions in the database."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.ids import new_id
from posthouse.errors import KeyNotFound
from posthouse.storage.errors import translate_errors
from posthouse.storage.queries import Db, call, fetch_rows, query


async def store_key(
    connection: Db,
    prefix: str,
    digest: bytes,
    *,
    name: str,
    role: str,
    tenant: str | None,
    queues: list[str] | None,
    may_announce: bool,
    expires_at: datetime | None,
    actor: str,
    limit: int,
) -> UUID:
    key_id = new_id()
    fields: dict[str, Any] = {
        "id": str(key_id),
        "prefix": prefix,
        "name": name,
        "role": role,
        "tenant_id": tenant,
        "queues": queues,
        "may_announce": may_announce,
        "expires_at": None if expires_at is None else expires_at.isoformat(),
    }
    with translate_errors():
        await call(connection, "create_key", key=json.dumps(fields), hash=digest, actor=actor, limit=limit)
    return key_id


async def find_key(connection: Db, prefix: str) -> dict[str, Any] | None:
    """Return the key if it is valid now."""
    found = await fetch_rows(connection, "key_find", prefix=prefix)
    return found[0] if found else None


async def record_key_use(connection: Db, prefix: str) -> None:
    await call(connection, "record_key_use", prefix=prefix)


async def revoke_key(connection: Db, prefix: str, *, tenant: str | None = None, actor: str) -> bool:
    """Revoke a key at once. Returns False if it was already revoked."""
    answer = await call(connection, "revoke_key", prefix=prefix, tenant=tenant, actor=actor)
    if answer is None:
        raise KeyNotFound(f"key {prefix} does not exist")
    return bool(answer)


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
    await connection.execute(query("session_delete"), {"hash": digest})
