"""The document of the API says what the API does: schemathesis tries.

In a process of its own, and with few examples of each route: `make fuzz` has more, and takes minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from posthouse import testing
from posthouse.settings import Settings
from support.server import ServerThread, key_for

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance"
)
WORKERS = "/worker/"
ENDLESS = "/api/v1/stream$"
HEALTH = "/api/health$"  # answers 503 on purpose
PHASES = os.environ.get("SCHEMA_PHASES", "examples,fuzzing")
EXAMPLES = os.environ.get("SCHEMA_EXAMPLES", "1")
FEW = EXAMPLES == "1"
SECONDS = 60 if FEW else 3600
MAX_CHARS = 500
"""Of the texts that are tried. Making up one that may be a hundred thousand long takes seconds."""


@pytest.fixture(scope="module")
def api(server):
    with (
        testing.database(server) as url,
        ServerThread(Settings(database_url=url, api_requests_per_second=0)) as running,
    ):
        yield running.url, {role: asyncio.run(key_for(url, role)) for role in ("super-admin", "worker")}


@pytest.fixture
def document(api, tmp_path):
    text = httpx.get(f"{api[0]}/api/v1/openapi.json", timeout=60).text
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(json.loads(text, object_hook=shortened)) if FEW else text)
    return file


def shortened(part):
    longest = part.get("maxLength")
    return {**part, "maxLength": MAX_CHARS} if isinstance(longest, int) and longest > MAX_CHARS else part


@pytest.mark.timeout(SECONDS * 2)
@pytest.mark.parametrize(
    ("role", "which"),
    [
        ("super-admin", ["--exclude-path-regex", f"{WORKERS}|{ENDLESS}|{HEALTH}"]),
        ("worker", ["--include-path-regex", WORKERS]),
    ],
    ids=["people", "workers"],
)
def test_every_answer_is_as_the_document_says(api, document, role, which, pytestconfig):
    address, keys = api
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"), "run", document, "--url", address, *which,
            "--header", f"Authorization: Bearer {keys[role]}", "--checks", CHECKS, "--phases", PHASES,
            "--max-examples", EXAMPLES, "--seed", "7", "--no-shrink", "--suppress-health-check", "all",
            "--request-timeout", "20", "--continue-on-failure", "--warnings", "off",
        ],
        capture_output=True, text=True, timeout=SECONDS * 2, check=False, cwd=document.parent,
        # Its tables of Unicode take seconds to make; those of the other tests serve as well.
        env={**os.environ, "NO_COLOR": "1",
             "HYPOTHESIS_STORAGE_DIRECTORY": str(pytestconfig.rootpath / ".hypothesis")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
