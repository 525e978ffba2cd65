"""What the API takes and gives: ``python -m bench.api``. Needs wrk.

One server process alone, no worker, on an embedded Postgres that syncs; wrk with 16 connections on loopback.
Prints one JSON object; times in milliseconds.

``--hostile``: the p99 of /health while 8 clients repeat a request that is meant to stop the server, as a
ratio to its p99 while they repeat ordinary requests. Needs no wrk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench import hostile
from bench.serving import serving
from posthouse import testing
from posthouse.identity import Role, issue_key
from posthouse.storage.connections import connect_async
from posthouse.storage.database import close_embedded

CONNECTIONS = 16
BODY = {"definition_key": "noop", "payload": {"number": 1}}
SCENES: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "post": ("POST", "/api/v1/jobs", BODY),
    "post_dedupe": ("POST", "/api/v1/jobs", {**BODY, "dedupe_key": "COUNT"}),
    "post_idempotent": ("POST", "/api/v1/jobs", BODY),
    "list": ("GET", "/api/v1/jobs?limit=50", None),
    "health": ("GET", "/health", None),
}


def script(name: str, key: str) -> str:
    """What wrk sends, in Lua."""
    method, path, body = SCENES[name]
    lines = [
        f'wrk.method = "{method}"',
        f'wrk.headers["Authorization"] = "Bearer {key}"',
        'wrk.headers["Content-Type"] = "application/json"',
        f"local body = {json.dumps(json.dumps(body))}" if body else "local body = nil",
        "local thread = 0",
        "function setup(t) thread = thread + 1; t:set('thread', thread) end",
        "local count = 0",
        "function request()",
        "  count = count + 1",
        '  local id = tostring(thread) .. "-" .. tostring(count)',
        '  wrk.headers["Idempotency-Key"] = id' if name == "post_idempotent" else "",
        f'  return wrk.format(nil, "{path}", nil, body and body:gsub("COUNT", id))',
        "end",
    ]
    return "\n".join(lines)


async def make_key(url: str) -> str:
    async with await connect_async(url, "bench") as connection:
        return await issue_key(connection, "bench", Role.TENANT_ADMIN, tenant="bench", actor="bench")


def measured(address: str, name: str, key: str, seconds: int) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        Path(file.name).write_text(script(name, key))
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", file.name, address]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    others = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    assert rate is not None, text
    found: dict[str, Any] = {"per_second": round(float(rate[1]))}
    for share in ("50", "99"):
        found[f"p{share}_ms"] = _milliseconds(re.search(rf"{share}%\s+([\d.]+)(us|ms|s)", text))
    return {**found, "refused": int(others[1]) if others else 0}


def _milliseconds(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    return round(float(match[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[match[2]], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--scene", choices=SCENES, action="append")
    parser.add_argument("--hostile", action="store_true")
    wanted = parser.parse_args()
    if wanted.hostile:
        print(json.dumps(hostile.measured(wanted.seconds)))
        return
    found: dict[str, Any] = {"connections": CONNECTIONS}
    try:
        with testing.database() as url:
            key = asyncio.run(make_key(url))
            with serving(url) as address:
                for name in wanted.scene or SCENES:
                    measured(address, name, key, 1)  # warm
                    found[name] = measured(address, name, key, wanted.seconds)
    finally:
        close_embedded()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
