"""Completions of the filter box."""

from __future__ import annotations

import pytest

from support.filters import filter_server


@pytest.fixture(scope="module")
def api_server(server):
    with filter_server(server) as api_server:
        api_server.db.execute(
            "select posthouse.announce(%s)",
            ('[{"key": "ocr", "description": "Reads a page"}, {"key": "order", "redact": ["code"]}]',),
        )
        yield api_server


@pytest.fixture(scope="module")
def tenant(api_server):
    tenant = api_server.tenant()
    for number in range(3):
        api_server.queued(
            tenant.name, "ocr", subject="my video", queue="slow", payload={"video_id": 42, "n": number}
        )
    api_server.queued(
        tenant.name, "order", payload={"code": "1234", "password": "x", "a b": 1, "deep": {"er": True}}
    )
    api_server.ended(tenant.name, subject="other", correlation="run-7", print_="beef" * 4)
    api_server.queued("other-tenant", "ocr", subject="not yours", payload={"secretly": 1, "video_id": 99})
    return tenant


def offered(client, line, at=None):
    answer = client.get("/jobs/suggest", params={"q": line} | ({} if at is None else {"at": at}))
    assert answer.status_code == 200, answer.text
    return answer.json()


def inserts(client, line, at=None):
    return [item["insert"] for item in offered(client, line, at)["items"]]


def test_names_of_fields_are_completed_with_what_they_mean(tenant):
    answer = offered(tenant.client, "kind:ocr st")
    assert (answer["from"], answer["to"]) == (9, 11)
    assert answer["items"][0] == {"insert": "status:", "label": "status:", "detail": "job status"}
    assert "payload." in inserts(tenant.client, "")
    assert inserts(tenant.client, "kind:ocr", at=2)[0] == "kind:"


def test_a_typed_value_is_completed_to_its_term(tenant):
    assert inserts(tenant.client, "fail") == ["status:failed"]
    assert inserts(tenant.client, "oc") == ["kind:ocr"]


def test_values_are_those_that_there_are(tenant):
    assert inserts(tenant.client, "status:") == [
        "queued", "running", "succeeded", "failed", "canceled", "dead_letter",
    ]  # fmt: skip
    answer = offered(tenant.client, "kind:oc")
    assert answer["items"] == [{"insert": "ocr", "label": "ocr", "detail": "Reads a page"}]
    assert (answer["from"], answer["to"]) == (5, 7)
    assert "slow" in inserts(tenant.client, "queue:")
    assert inserts(tenant.client, "created:<")[0] == "<1h"
    assert inserts(tenant.client, "priority:hi") == ["high"]


def test_values_of_jobs_are_those_of_the_jobs_that_fit_the_rest(tenant):
    assert inserts(tenant.client, "subject:") == ['"my video"', "other"]
    assert inserts(tenant.client, "status:failed subject:") == ["other"]
    assert inserts(tenant.client, "subject: status:failed", at=8) == ["other"]
    assert inserts(tenant.client, "correlation:ru") == ["run-7"]


def test_payloads_are_completed_key_by_key_and_value_by_value(tenant):
    keys = inserts(tenant.client, "payload.")
    assert sorted(keys[:2]) == ["payload.n:", "payload.video_id:"]
    assert "payload.deep:" in keys
    assert inserts(tenant.client, "payload.deep.") == ["payload.deep.er:"]
    assert inserts(tenant.client, "payload.deep.er:") == ["true"]
    assert sorted(inserts(tenant.client, "kind:ocr payload.n:")) == ["0", "1", "2"]
    assert offered(tenant.client, "payload.video_id:4")["items"] == [
        {"insert": "42", "label": "42", "detail": "3 of the newest 5"}
    ]


def test_secrets_are_not_offered(tenant):
    assert not {"payload.password:", "payload.code:", "payload.a b:"} & set(
        inserts(tenant.client, "payload.")
    )
    assert inserts(tenant.client, "payload.code:") == []


def test_nothing_of_other_tenants_is_offered(api_server, tenant):
    for line in (
        "subject:",
        "payload.",
        "payload.video_id:",
        "correlation:",
        "worker:",
        "tenant:",
        "fingerprint:",
    ):
        text = str(offered(tenant.client, line))
        assert "not yours" not in text
        assert "secretly" not in text
        assert "99" not in text
        assert "other-tenant" not in text
    assert "tenant:" not in inserts(tenant.client, "")
    boss = api_server.client_for("super-admin")
    assert "tenant:" in inserts(boss, "")
    assert tenant.name in inserts(boss, "tenant:tenant")
    assert '"not yours"' in inserts(boss, "subject:")


@pytest.mark.parametrize(
    "line", ['status:"', "nonsense:x", "payload..:", "created:", "-", ",", "kind:a kind:a:b"]
)
def test_half_a_line_is_no_mistake(tenant, line):
    assert offered(tenant.client, line)["to"] <= len(line)
