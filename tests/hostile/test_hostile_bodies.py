"""Bodies are refused before they cost anything: without permission, too large, or with too many values."""

from __future__ import annotations

import json

import pytest

from support.hostile import answered

MEGABYTE = 1_000_000
WRITES = [
    "POST /api/v1/jobs",
    "POST /api/v1/jobs/batch",
    "POST /api/v1/events",
    "POST /api/v1/admin/keys",
    "POST /api/v1/worker/register",
    "POST /api/v1/worker/jobs/complete",
    "POST /api/worker/complete",
]


def unsent(hostile_server, line, role, size=MEGABYTE):
    """The response to a request whose body is announced and never sent."""
    head = (f"{line} HTTP/1.1", "Content-Type: application/json", f"Content-Length: {size}")
    with hostile_server.raw(*head, role=role) as connection:
        status, problem = answered(connection)
    return status, problem["code"]


@pytest.mark.parametrize("line", WRITES)
def test_a_body_without_credentials_is_refused_before_it_is_read(hostile_server, line):
    assert unsent(hostile_server, line, "anonymous") == (401, "not_authenticated")


@pytest.mark.parametrize("line", WRITES)
def test_a_body_without_permission_is_refused_before_it_is_read(hostile_server, line):
    assert unsent(hostile_server, line, "tenant-viewer") == (403, "forbidden")


def test_a_login_has_a_small_body(hostile_server):
    assert unsent(hostile_server, "POST /api/v1/session", "anonymous") == (413, "body_too_large")


def test_only_routes_with_payloads_take_large_bodies(hostile_server):
    small, large = 32_769, 1_200_000
    assert unsent(hostile_server, "POST /api/v1/admin/keys", "super-admin", small) == (413, "body_too_large")
    assert unsent(hostile_server, "POST /api/v1/jobs", "super-admin", large) == (413, "body_too_large")
    job = {"definition_key": "noop", "payload": {"text": "x" * 500_000}}
    assert hostile_server.client("tenant-admin").post("/api/v1/jobs", json=job).status_code == 201


@pytest.mark.parametrize("path", ["jobs", "jobs/batch", "events"])
def test_unknown_fields_are_one_error_that_names_a_few(hostile_server, path):
    answer = hostile_server.client("tenant-admin").post(
        f"/api/v1/{path}", json={f"k{n}": n for n in range(60_000)}
    )
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["message"] == "unknown fields: 'k0', 'k1', 'k2'"


def test_unknown_fields_of_a_worker_are_one_error(hostile_server):
    answer = hostile_server.client("worker").post(
        "/api/v1/worker/heartbeat", json={f"k{n}": n for n in range(60_000)}
    )
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 1)


def test_a_batch_is_checked_up_to_its_first_invalid_job(hostile_server):
    answer = hostile_server.client("tenant-admin").post(
        "/api/v1/jobs/batch", json={"jobs": [{"queue": 1}] * 1000}
    )
    assert answer.status_code == 422
    assert {error["where"] for error in answer.json()["errors"]} == {
        "body.jobs.0.definition_key",
        "body.jobs.0.queue",
    }


@pytest.mark.parametrize("value", [[0] * 120_000, [{}] * 120_000, {f"k{n}": 0 for n in range(101_000)}])
def test_the_number_of_values_is_limited(hostile_server, value):
    # Without spaces, so that the size of the body is within its limit.
    body = json.dumps({"definition_key": "noop", "payload": {"v": value}}, separators=(",", ":"))
    answer = hostile_server.client("tenant-admin").post(
        "/api/v1/jobs", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413
    assert "more than 100,000 JSON values" in answer.json()["detail"]


def test_separators_in_texts_are_no_values(hostile_server):
    job = {"definition_key": "noop", "payload": {"text": '\\",{[' * 120_000}}
    assert hostile_server.client("tenant-admin").post("/api/v1/jobs", json=job).status_code == 201


def test_nesting_is_limited(hostile_server):
    for depth in (201, 5_000, 50_000):
        body = b'{"definition_key":"noop","payload":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        for role, path in (("tenant-admin", "jobs"), ("worker", "worker/heartbeat")):
            answer = hostile_server.client(role).post(
                f"/api/v1/{path}", content=body, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 422, answer.text
