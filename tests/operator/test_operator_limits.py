"""posthouse limits: set while workers run, listed with what they count."""

import pytest

from support.waiting import eventually_sync
from support.workers import status_counts


@pytest.fixture
def audited(db):
    """(action, target) of everything that was done, with who did it."""
    return lambda: db.execute(
        "select action, target from posthouse.audit where actor like 'cli:%' order by id"
    ).fetchall()


def most_running(db, kind="hold"):
    return db.execute("select count(*) from posthouse.running where kind = %s", (kind,)).fetchone()[0]


def test_a_limit_that_is_set_while_a_worker_runs_takes_effect_at_once(
    posthouse, start_worker, enqueue, db, gate
):
    assert posthouse("limits", "set", "held", "--kind", "hold", "--running", "2").code == 0
    start_worker()
    for _ in range(6):
        enqueue("hold")
    enqueue("quick")
    eventually_sync(lambda: most_running(db) == 2 and status_counts(db).get("succeeded") == 1)
    assert posthouse("limits", "--json").json[0]["in_use"] == 2

    assert posthouse("limits", "set", "held", "--running", "5").code == 0
    eventually_sync(lambda: most_running(db) == 5)

    assert posthouse("limits", "remove", "held").code == 0
    eventually_sync(lambda: most_running(db) == 6)
    gate.open()
    eventually_sync(lambda: status_counts(db) == {"succeeded": 7})


def test_the_list_shows_what_is_counted_and_what_is_left(posthouse, enqueue, fleet, db):
    posthouse("limits", "set", "mailer", "--kind", "mail", "--running", "3", "--rate", "10/h", "--burst", "4",
              "--weight", "mail=2")  # fmt: skip
    worker = fleet.register(concurrency=9)
    for _ in range(3):
        enqueue("mail")
        fleet.claim(worker)
    (limit,) = posthouse("limits", "list", "--json").json
    assert (limit["in_use"], limit["max_running"], limit["kinds"]) == (2, 3, ["mail"])
    assert limit["tokens"] == pytest.approx(0, abs=0.1)
    assert limit["weights"] == {"mail": 2}
    line = posthouse("limits").out.splitlines()[1]
    assert line.split()[:4] == ["mailer", "all", "2/3", "10/h"]
    assert "weight mail=2" in line


def test_each_slot_of_a_limit_is_listed_by_itself(posthouse, enqueue, fleet):
    posthouse("limits", "set", "fair", "--per", "tenant", "--running", "2")
    posthouse("limits", "set", "users", "--per", "key", "--running", "1")
    worker = fleet.register(concurrency=9)
    for tenant in ("acme", "acme", "globex"):
        enqueue("mail", tenant_id=tenant, limit_key=f"{tenant}'s")
    while fleet.claim(worker):
        pass
    slots = posthouse("limits", "--slots", "--json").json
    assert [(slot["limit_name"], slot["tenant_id"], slot["key"], slot["in_use"]) for slot in slots] == [
        ("fair", "acme", None, 1),
        ("fair", "globex", None, 1),
        ("users", "acme", "acme's", 1),
        ("users", "globex", "globex's", 1),
    ]
    assert "2 in total" in posthouse("limits").out


def test_only_the_parts_that_are_named_change(posthouse, audited):
    posthouse(
        "limits", "set", "mailer", "--kind", "mail", "--running", "3", "--rate", "100/5m", "--burst", "9"
    )
    changed = posthouse("limits", "set", "mailer", "--running", "7", "--json").json
    assert (changed["max_running"], changed["kinds"], changed["burst"]) == (7, ["mail"], 9)
    assert changed["rate"] == pytest.approx(1 / 3)
    cleared = posthouse("limits", "set", "mailer", "--clear", "rate", "--clear", "kind", "--json").json
    assert (cleared["rate"], cleared["burst"], cleared["kinds"], cleared["max_running"]) == (
        None,
        None,
        None,
        7,
    )
    posthouse("limits", "remove", "mailer")
    assert audited() == [("limit.set", "mailer")] * 3 + [("limit.remove", "mailer")]


WRONG = {
    "no numbers": (["set", "a", "--kind", "mail"], 1, "a_limit_limits_something"),
    "nothing": (["set", "a"], 2, "no fields given"),
    "a rate that is none": (["set", "a", "--rate", "often"], 2, "10/s"),
    "a scope that is none": (["set", "a", "--running", "1", "--per", "planet"], 2, "all, tenant, key"),
    "a weight without kind": (["set", "a", "--rate", "1/s", "--weight", "2"], 2, "welcome=2"),
    "a weight that never fits": (["set", "a", "--rate", "1/s", "--weight", "mail=5"], 1, "burst"),
    "a field to clear that is none": (["set", "a", "--clear", "name"], 2, "running"),
    "one to remove that is not there": (["remove", "a"], 1, "limit 'a' does not exist"),
}


def test_an_error_is_reported_in_one_line(posthouse):
    for mistake, (arguments, code, hint) in WRONG.items():
        answer = posthouse("limits", *arguments)
        assert (answer.code, answer.out) == (code, ""), mistake
        assert answer.err.startswith("error: "), mistake
        assert hint in answer.err, mistake
        assert len(answer.err.splitlines()) == 1, mistake
    assert posthouse("limits", "--json").json == []


def test_tenants_have_work_and_a_share(posthouse, enqueue, fleet, audited):
    for tenant in ("acme", "acme", "globex"):
        enqueue("mail", tenant_id=tenant)
    fleet.claim(fleet.register())
    posthouse("tenants", "create", "initech")
    assert posthouse("tenants", "weight", "initech", "2.5").code == 0
    shown = posthouse("tenants", "--json").json
    found = [tuple(tenant[name] for name in ("id", "queued", "running", "weight")) for tenant in shown]
    assert found == [("acme", 1, 1, 1), ("globex", 1, 0, 1), ("initech", 0, 0, 2.5)]
    assert posthouse("tenants").out.splitlines()[3].split() == ["initech", "0", "0", "2.5", "default"]
    assert audited() == [("tenant.create", "initech"), ("tenant.weight", "initech")]


def test_a_tenant_that_was_not_created_is_not_changed(posthouse):
    for name in ("unknown", "posthouse", "two words"):
        for command, value in (("weight", "2"), ("retention", "90")):
            answer = posthouse("tenants", command, name, value)
            assert answer.code == 1, (command, name)
            assert f"tenant '{name}' does not exist" in answer.err
    assert posthouse("tenants", "--json").json == []


def test_the_default_tenant_exists_without_being_created(posthouse):
    assert posthouse("tenants", "weight", "default", "2").code == 0
    assert posthouse("tenants", "retention", "default", "90").code == 0


def test_a_share_is_more_than_nothing(posthouse):
    for weight in ("0", "-1", "nan", "inf"):
        answer = posthouse("tenants", "weight", "acme", "--", weight)
        assert answer.code == 2, weight
        assert "above 0" in answer.err, weight
