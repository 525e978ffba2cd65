"""A tenant cannot enqueue a kind that has no definition."""

from __future__ import annotations

import json

import pytest

JOBS, BATCH, TRIGGERS = "/api/v1/jobs", "/api/v1/jobs/batch", "/api/v1/jobs/triggers"
MISSPELLED = {"definition_key": "mial.send"}


@pytest.fixture
async def admin(api, db):
    db.execute("select posthouse.announce(%s)", (json.dumps([{"key": "mail.send"}, {"key": "report"}]),))
    return await api.client_for("tenant-admin", "acme")


def assert_unknown(answer):
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_definition"), answer.text
    assert answer.json()["detail"] == 'there is no definition "mial.send"; did you mean "mail.send"?'


async def test_every_way_of_a_tenant_to_enqueue_refuses_it_with_a_suggestion(admin, db):
    assert_unknown(await admin.post(JOBS, json=MISSPELLED))
    assert_unknown(await admin.post(JOBS, json=MISSPELLED))
    assert_unknown(await admin.post(JOBS, json=MISSPELLED, headers={"Idempotency-Key": "one"}))
    known = {"definition_key": "mail.send"}
    assert_unknown(await admin.post(BATCH, json={"jobs": [known, MISSPELLED]}))
    trigger = {**MISSPELLED, "trigger_type": "event", "event_name": "order.paid"}
    assert_unknown(await admin.post(TRIGGERS, json=trigger))
    made = await admin.post(TRIGGERS, json={**trigger, **known})
    assert made.status_code == 201, made.text
    assert_unknown(await admin.patch(f"{TRIGGERS}/{made.json()['id']}", json=MISSPELLED))
    assert db.execute("select count(*) from posthouse.jobs").fetchone() == (0,)


async def test_a_name_like_no_other_says_where_the_definitions_are(admin):
    detail = (await admin.post(JOBS, json={"definition_key": "xyzzy"})).json()["detail"]
    assert detail == 'there is no definition "xyzzy"; GET /api/v1/definitions lists the definitions'


async def test_a_definition_that_arrives_counts_at_once(admin, db):
    assert_unknown(await admin.post(JOBS, json=MISSPELLED))
    db.execute('select posthouse.announce(\'[{"key": "mial.send"}]\')')
    assert (await admin.post(JOBS, json=MISSPELLED)).status_code == 201


async def test_super_admins_may_enqueue_before_the_definition_exists(api, admin, db):
    boss = await api.client_for("super-admin")
    for path, body in ((JOBS, MISSPELLED), (BATCH, {"jobs": [MISSPELLED]})):
        assert (await boss.post(path, json=body)).status_code == 201
    assert_unknown(await admin.post(JOBS, json=MISSPELLED))
