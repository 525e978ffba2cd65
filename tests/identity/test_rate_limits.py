"""How often one may ask, and be wrong."""

from __future__ import annotations

import pytest

from posthouse import testing
from posthouse.server.http.auth import MAX_NAMES, RateLimiter
from posthouse.settings import Settings
from support.identity import problem
from support.server import ServerThread


@pytest.fixture(scope="module")
def strict(server):
    with testing.database(server) as url:
        # So slow that what is used up during the test does not come back.
        settings = Settings(
            database_url=url, api_requests_per_second=0.001, api_burst=3, auth_failures_per_minute=2
        )
        with ServerThread(settings) as api_server:
            yield api_server


def test_a_rate_limited_credential_gets_a_retry_after_header(strict):
    one, other = strict.client_for("tenant-viewer", "acme"), strict.client_for("tenant-viewer", "acme")
    assert [one.get("/api/v1/jobs").status_code for _ in range(3)] == [200] * 3
    answer = one.get("/api/v1/jobs")
    assert problem(answer) == (429, "too_many_requests")
    assert 0 < int(answer.headers["retry-after"]) <= 1000
    assert other.get("/api/v1/jobs").status_code == 200


def test_an_address_that_guesses_must_wait_and_those_who_are_known_need_not(strict):
    known = strict.client_for("tenant-viewer", "known")
    assert known.get("/api/v1/jobs").status_code == 200
    for number in range(2):
        guess = strict.client(f"ph_aaaaaaa{'ab'[number]}_" + "x" * 43)
        assert problem(guess.get("/api/v1/jobs")) == (401, "not_authenticated")
    answer = strict.client("ph_aaaaaaac_" + "x" * 43).get("/api/v1/jobs")
    assert problem(answer) == (429, "too_many_requests")
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert problem(strict.client().post("/api/v1/session", json={"credential": "x"}))[0] == 429
    assert known.get("/api/v1/jobs").status_code == 200


def test_a_bucket_fills_again_and_holds_no_more_than_its_burst():
    now = [0.0]
    buckets = RateLimiter(2.0, 3, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    now[0] = 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0, 0.5]
    now[0] = 100.0
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_buckets_without_a_rate_are_never_empty_and_names_do_not_pile_up():
    assert [RateLimiter(0, 1).take("a") for _ in range(3)] == [0, 0, 0]
    buckets = RateLimiter(1.0, 1)
    for number in range(MAX_NAMES + 10):
        buckets.take(str(number))
    assert len(buckets._left) == MAX_NAMES
