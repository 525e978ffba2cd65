"""What the server logs of requests."""

from __future__ import annotations

import io
import json
import logging

import pytest

from posthouse.cli.log_format import JsonLines
from posthouse.core.redaction import MASKING
from posthouse.core.redaction.logs import LogContextFilter
from support.databases import define
from support.waiting import eventually


@pytest.fixture
def lines():
    """What was logged since, as JSON lines."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for each in (LogContextFilter(), MASKING):
        handler.addFilter(each)
    logger = logging.getLogger("posthouse.server")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(before)


async def test_each_request_is_a_line_without_what_stood_in_it(api, lines):
    key = await api.key("tenant-admin", "acme")
    acme = api.client(key)
    define(api.database, "sync")
    made = await acme.post("/api/v1/jobs", json={"definition_key": "sync", "payload": {"a": "canary-1"}})
    job = made.json()["id"]
    await acme.get(f"/api/v1/jobs/{job}?token=canary-2", headers={"X-Request-Id": "mine"})
    await acme.get("/canary-3")
    await api.client().get("/api/v1/jobs")
    await eventually(lambda: len(lines()) == 4, what="the lines, which are written after the responses")
    posted, shown, nowhere, stranger = lines()
    assert (posted["method"], posted["route"], posted["status"]) == ("POST", "/api/v1/jobs", 201)
    assert (shown["route"], shown["request_id"]) == ("/api/v1/jobs/{job_id}", "mine")
    assert shown["principal"] == posted["principal"] == f"key:{key.split('_')[1]}"
    assert shown["milliseconds"] > 0
    assert (nowhere["route"], nowhere["status"]) == (None, 404)
    assert (stranger["principal"], stranger["status"]) == (None, 401)
    for secret in ("canary", job, key):
        assert secret not in json.dumps(lines())
