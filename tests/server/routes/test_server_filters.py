"""The filter language over HTTP: what is found, by whom, and what is wrong with a line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from support.filters import filter_server, found


@pytest.fixture(scope="module")
def api_server(server):
    with filter_server(server) as api_server:
        yield api_server


@pytest.fixture(scope="module")
def tenant(api_server):
    """A tenant with a job for each case, by name."""
    tenant = api_server.tenant()
    hours = 3600
    worker = api_server.worker("studio-1")
    api_server.db.execute('select posthouse.announce(\'[{"key": "mail"}]\')')
    name = tenant.name
    tenant.worker = worker
    tenant.jobs = {
        "plain": api_server.queued(name, "ocr"),
        "later": api_server.queued(
            name, "ocr", queue="slow", scheduled_for=datetime.now(UTC) + timedelta(days=1)
        ),
        "failed": api_server.ended(
            name,
            kind="transcode",
            error="TimeoutError: 50% done",
            attempts=3,
            worker=worker,
            payload={"video_id": 42, "tags": ["blue", "red"]},
            subject="my video",
        ),
        "dead": api_server.ended(
            name,
            "dead_letter",
            kind="ocr",
            error="ValueError: no",
            print_="a" * 16,
            payload={"video_id": "42", "deep": {"list": [{"name": "x"}]}},
            priority=10,
        ),
        "canceled": api_server.ended(
            name, "canceled", kind="mail", queue="slow", subject="my video", correlation="run-1"
        ),
        "old": api_server.ended(
            name,
            "succeeded",
            kind="mail",
            age=3 * hours,
            ended=2 * hours,
            error="TimeoutError: of the first attempt",
            attempts=2,
            source="event",
        ),
        "done": api_server.ended(
            name,
            "succeeded",
            kind="mail",
            payload={"ok": True, "none": None, "size": 2000},
            correlation="run-1",
        ),
    }
    api_server.queued("other-tenant", "ocr")
    api_server.ended("other-tenant", kind="transcode", subject="my video", payload={"video_id": 42})
    return tenant


CASES = {
    "": "plain later failed dead canceled old done",
    "status:failed": "failed",
    "status:failed,dead_letter kind:ocr,transcode": "failed dead",
    "status:queued": "plain later",
    "-status:succeeded,queued": "failed dead canceled",
    "kind:ocr": "plain later dead",
    "-kind:ocr,mail": "failed",
    "kind:trans*": "failed",
    'kind:"trans*"': "",
    "queue:slow": "later canceled",
    "source:event": "old",
    'subject:"my video"': "failed canceled",
    'subject:"my video" status:canceled': "canceled",
    "correlation:run-1": "canceled done",
    "correlation:run-1,run-2 -status:canceled": "done",
    "error:timeout": "failed",
    'error:"50% d"': "failed",
    "error:5_%": "",
    "-error:timeout": "plain later dead canceled old done",
    "fingerprint:ffff": "failed canceled",
    f"fingerprint:{'a' * 16}": "dead",
    "attempts:>1": "failed old",
    "attempts:0": "plain later",
    "attempts:2..3": "failed old",
    "priority:urgent": "dead",
    "priority:<100": "dead",
    "payload.video_id:42": "failed dead",
    'payload.video_id:"42"': "dead",
    "payload.video_id:43,42": "failed dead",
    "payload.video_id:4": "",
    "payload.tags:blue": "failed",
    "payload.deep.list.name:x": "dead",
    "payload.ok:true": "done",
    "payload.none:null": "done",
    "payload.size:>1999": "done",
    "payload.size:>2000": "",
    "payload.video_id:*": "failed dead",
    "-payload.video_id:*": "plain later canceled old done",
    "created:<2h": "plain later failed dead canceled done",
    "created:>2h": "old",
    "created:1h..4h": "old",
    "created:>2099-01-01": "",
    "created:2001-01-01..2001-12-31": "",
    "finished:<1h": "failed dead canceled done",
    "-finished:<1h": "plain later old",
    "worker:studio-1": "",
    "tenant:other-tenant": "",
    "mail": "canceled old done",
    '"my video"': "failed canceled",
    "nothing-of-the-kind": "",
    "-nothing-of-the-kind -status:queued": "failed dead canceled old done",
}


@pytest.mark.parametrize("line", CASES)
def test_a_line_finds_the_jobs_that_it_describes(tenant, line):
    names = {str(job): name for name, job in tenant.jobs.items()}
    page = found(tenant.client, line)
    assert [names[item["id"]] for item in page["items"]] == sorted(
        CASES[line].split(), key=lambda name: tenant.jobs[name], reverse=True
    )
    assert (page["next_cursor"], page["partial"]) == (None, False)
    count = tenant.client.get("/jobs/count", params={"q": line}).json()
    assert count == {"count": len(CASES[line].split()), "exact": True, "count_limit": 10_000}


def test_a_super_admin_finds_the_same_jobs_among_all_tenants(api_server, tenant):
    boss = api_server.client_for("super-admin")
    for line, names in CASES.items():
        if "worker:" in line or "tenant:" in line:
            continue
        wanted = {str(tenant.jobs[name]) for name in names.split()}
        assert {item["id"] for item in found(boss, f"{line} tenant:{tenant.name}")["items"]} == wanted, line
        mine = [
            item["id"] for item in found(boss, line, limit=200)["items"] if item["tenant_id"] == tenant.name
        ]
        assert set(mine) == wanted, line
        assert {item["id"] for item in found(boss, line, tenant=tenant.name)["items"]} == wanted, line


def test_names_of_workers_are_the_operators(api_server, tenant):
    boss = api_server.client_for("super-admin")
    failed = [str(tenant.jobs["failed"])]
    for line in ("worker:studio-1", "worker:studio.local", "worker:studio*", f"worker:{tenant.worker}"):
        assert [item["id"] for item in found(boss, line)["items"]] == failed
    assert [item["id"] for item in found(tenant.client, f"worker:{tenant.worker}")["items"]] == failed


def test_a_job_is_found_by_the_beginning_of_its_id(tenant):
    job = str(tenant.jobs["failed"])
    assert [item["id"] for item in found(tenant.client, job)["items"]] == [job]
    for line in (f"id:{job}", f"id:{job[:30]}", f"{job[:30]}…", job.replace("-", "")):
        assert job in [item["id"] for item in found(tenant.client, line)["items"]]
    assert found(tenant.client, f"id:{UUID(int=0)}")["items"] == []


def test_a_line_and_the_other_parameters_are_asked_for_together(tenant):
    both = found(tenant.client, "kind:ocr,mail", status="canceled", queue="slow")
    assert [item["id"] for item in both["items"]] == [str(tenant.jobs["canceled"])]
    assert found(tenant.client, "kind:ocr", kind="mail")["items"] == []
    recent = datetime.now(UTC) - timedelta(hours=1)
    assert found(tenant.client, "kind:mail", created_before=recent.isoformat())["items"][0]["id"] == str(
        tenant.jobs["old"]
    )


def test_pages_go_on_behind_each_other(tenant):
    seen, cursor = [], None
    while True:
        page = found(tenant.client, "-kind:nothing", limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [item["id"] for item in page["items"]]
        assert not page["partial"]
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == sorted(map(str, tenant.jobs.values()), reverse=True)
    assert [item["id"] for item in found(tenant.client, "", limit=2, offset=3)["items"]] == seen[3:5]


@pytest.mark.parametrize(
    ("line", "at", "to", "suggestion"),
    [
        ("stat:failed", 0, 4, "status"),
        ("kind:a status:faild", 14, 19, "failed"),
        ("created:2h", 8, 10, "<2h"),
        ('subject:"my', 8, 11, '"my"'),
        ("payload.password:x", 0, 16, None),
        ("kind:", 5, 5, None),
    ],
)
def test_filter_errors_name_the_position(tenant, line, at, to, suggestion):
    for path in ("/jobs", "/jobs/count"):
        answer = tenant.client.get(path, params={"q": line})
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, "invalid_filter")
        assert (problem["at"], problem["to"], problem["suggestion"]) == (at, to, suggestion)
        assert problem["detail"]


HOSTILE = [
    "'; drop table posthouse.history; --", "\\'", '"', "\\", "$1", "%s", "%L", "{}", "{a,b}", "$$", "a'b",
    "') or true --", '") || true', "? (@ == 1)", "\u2028", "*", "%", "_",
]  # fmt: skip


@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2))])
@pytest.mark.parametrize("value", HOSTILE)
def test_filter_values_are_never_interpreted(tenant, value, share):
    """A third of the fields for each value; the other two thirds take too long for ``make test``."""
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    fields = (
        "kind",
        "queue",
        "subject",
        "correlation",
        "worker",
        "tenant",
        "error",
        "fingerprint",
        "payload.x",
    )
    for field in fields[(share + HOSTILE.index(value)) % 3 :: 3]:
        there = int(field == "error" and value in "TimeoutError: 50% done")
        assert len(found(tenant.client, f'{field}:"{text}"')["items"]) == there, field
        assert len(found(tenant.client, f'-{field}:"{text}"')["items"]) == len(tenant.jobs) - there, field
    assert found(tenant.client, f'"{text}"')["items"] == []
    assert found(tenant.client, f'payload."{text}":1'.replace('."', ".").replace('":', ":").replace(" ", ""))
    assert len(found(tenant.client, "")["items"]) == len(tenant.jobs)


def test_what_is_masked_is_not_found_either(api_server):
    tenant = api_server.tenant()
    hidden = {"properties": {"iban": {"type": "string", "writeOnly": True}}}
    api_server.db.execute(
        "select posthouse.announce(%s)",
        (json.dumps([{"key": "pay", "redact": ["card.number"], "schema": hidden}]),),
    )
    payload = {"iban": "DE1", "card": {"number": "4711"}, "shop": "s"}
    api_server.queued(tenant.name, "pay", payload=payload)
    api_server.queued(tenant.name, "other", payload=payload)
    kinds = {
        line: [item["definition_key"] for item in found(tenant.client, line)["items"]]
        for line in ("payload.iban:DE1", "payload.card.number:4711", "payload.shop:s")
    }
    assert kinds == {
        "payload.iban:DE1": ["other"],
        "payload.card.number:4711": ["other"],
        "payload.shop:s": ["other", "pay"],
    }
