"""How long /health takes while 8 clients repeat requests that are meant to stop the server."""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from psycopg.types.json import Jsonb

from bench.serving import serving
from posthouse import testing
from posthouse.identity import Role, issue_key
from posthouse.storage.connections import connect_async
from posthouse.storage.database import close_embedded
from posthouse.storage.queries import query

CLIENTS = 8
PAUSE = 0.005
"""Seconds between two requests to /health."""
ORDINARY = "ordinary"
KEYS = 75_000
RECURSIVE = {
    "oneOf": [
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#"}}, "minProperties": 1},
    ]
}


class Asked(NamedTuple):
    """A request that clients repeat."""

    method: str
    path: str
    body: bytes = b""
    key: str = ""


def requests(keys: dict[str, str]) -> dict[str, Asked]:
    admin, worker = keys["tenant-admin"], keys["worker"]
    unknown = json.dumps({f"k{n}": n for n in range(60_000)}).encode()
    many = b'{"definition_key":"noop","payload":{%b}}' % b",".join(b'"k%d":1' % n for n in range(KEYS))
    deep = b'{"a":' * 60 + b"{}" + b"}" * 60
    return {
        ORDINARY: Asked("POST", "/api/v1/jobs", b'{"definition_key":"noop","payload":{"number":1}}', admin),
        "login_unknown_keys": Asked("POST", "/api/v1/session", unknown),
        "anonymous_unknown_keys": Asked("POST", "/api/v1/jobs", unknown),
        "jobs_unknown_keys": Asked("POST", "/api/v1/jobs", unknown, admin),
        "events_unknown_keys": Asked("POST", "/api/v1/events", unknown, admin),
        "worker_unknown_keys": Asked("POST", "/api/v1/worker/heartbeat", unknown, worker),
        "nested": Asked("POST", "/api/v1/jobs", b"[" * 500_000, admin),
        "payload_of_75000_keys": Asked("POST", "/api/v1/jobs", many, admin),
        "read_75000_keys": Asked("GET", keys["large"], key=admin),
        "recursive_schema": Asked(
            "POST", "/api/v1/jobs", b'{"definition_key":"recursive","payload":%b}' % deep, admin
        ),
    }


def measured(seconds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"clients": CLIENTS}
    try:
        with testing.database() as url, serving(url) as address:
            keys = asyncio.run(_prepared(url))
            _make_large_job(address, keys)
            for name, asked in requests(keys).items():
                with _repeated(address, asked):
                    p99 = _p99_of_health(address, seconds)
                found[name] = {"health_p99_ms": round(p99 * 1000, 1)}
                print(name, found[name], file=sys.stderr, flush=True)
    finally:
        close_embedded()
    usual = found[ORDINARY]["health_p99_ms"]
    for name in found.keys() - {"clients", ORDINARY}:
        found[name]["ratio"] = round(found[name]["health_p99_ms"] / usual, 1)
    found["worst_ratio"] = max(
        item["ratio"] for item in found.values() if isinstance(item, dict) and "ratio" in item
    )
    return found


async def _prepared(url: str) -> dict[str, str]:
    async with await connect_async(url, "bench") as connection:
        await connection.execute(
            "insert into posthouse.definitions (key, schema, updated_at) values ('recursive', %s, now())",
            (Jsonb(RECURSIVE),),
        )
        await connection.execute(query("bench_define"))
        return {
            role: await issue_key(connection, "bench", role, tenant=tenant, actor="bench")
            for role, tenant in ((Role.TENANT_ADMIN, "bench"), (Role.WORKER, None))
        }


def _make_large_job(address: str, keys: dict[str, str]) -> None:
    client = _connected(address)
    asked = requests({**keys, "large": ""})["payload_of_75000_keys"]
    status, body = _ask(client, asked)
    assert status == 201, body
    keys["large"] = f"/api/v1/jobs/{json.loads(body)['id']}"


def _connected(address: str) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)


def _ask(client: http.client.HTTPConnection, asked: Asked) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json"} if asked.body else {}
    if asked.key:
        headers["Authorization"] = f"Bearer {asked.key}"
    client.request(asked.method, asked.path, asked.body or None, headers)
    answer = client.getresponse()
    return answer.status, answer.read()


@contextmanager
def _repeated(address: str, asked: Asked) -> Iterator[None]:
    """Repeat a request in a process of its own while the block runs."""
    spawn = multiprocessing.get_context("spawn")
    ready, stop = spawn.Event(), spawn.Event()
    clients = spawn.Process(target=_repeat, args=(address, asked, ready, stop), daemon=True)
    clients.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        stop.set()
        clients.join(60)


def _repeat(address: str, asked: Asked, ready: Event, stop: Event) -> None:
    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(CLIENTS):
            pool.submit(_repeat_one, address, asked, stop)
        ready.set()


def _repeat_one(address: str, asked: Asked, stop: Event) -> None:
    client = _connected(address)
    while not stop.is_set():
        try:
            _ask(client, asked)
        except (OSError, http.client.HTTPException):  # refused before the body was sent
            client.close()


def _p99_of_health(address: str, seconds: int) -> float:
    client = _connected(address)
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        status, _ = _ask(client, Asked("GET", "/health"))
        assert status == 200, status
        taken.append(time.perf_counter() - began)
        time.sleep(PAUSE)
    return sorted(taken)[int(len(taken) * 0.99)]
