"""Demos of applications: their jobs, and a lock that keeps runs apart."""

from __future__ import annotations

import json
from typing import Any

from posthouse.storage.queries import Db, fetch_value, query

DEMO_KIND = "posthouse.demo"
"""The prefix is reserved: callers of the API and triggers cannot enqueue it, and only one route does."""
DEMO_TENANT = "posthouse"


def demo_subject(name: str) -> str:
    """Return the subject of the jobs that run a demo."""
    return f"demo {name}"


async def enqueue_demo(connection: Db, name: str, options: dict[str, Any], *, actor: str) -> None:
    """Enqueue the demo of an application, unless a run of it is active."""
    payload = json.dumps({"name": name, **options})
    given = {"kind": DEMO_KIND, "payload": payload, "tenant": DEMO_TENANT, "subject": demo_subject(name)}
    await connection.execute(query("demo_enqueue"), {**given, "actor": actor})


async def lock_demo(connection: Db, name: str) -> bool:
    """Lock a demo until the connection is closed; False if another run has the lock."""
    return bool(await fetch_value(connection, "demo_lock", name=name))
