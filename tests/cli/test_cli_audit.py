"""posthouse audit, and the commands whose traces it shows."""

import getpass
import json
import platform

import pytest

from posthouse import insights
from posthouse.errors import ConfigurationError
from posthouse.storage.connections import connect_async

ME = f"cli:{getpass.getuser()}@{platform.node()}"


def test_every_command_that_changes_something_is_on_record_with_who_did_it(
    posthouse, enqueue, fleet, entries, db
):
    job, worker = enqueue("task"), fleet.register("blue")
    commands = {
        ("workers", "disable", "blue"): "worker.disable",
        ("workers", "enable", "blue"): "worker.enable",
        ("workers", "drain", "blue"): "worker.drain",
        ("queues", "pause", "mail"): "queue.pause",
        ("queues", "resume", "mail"): "queue.resume",
        ("queues", "drain", "mail"): "queue.pause",
        ("limits", "set", "few", "--running", "1"): "limit.set",
        ("limits", "remove", "few"): "limit.remove",
        ("tenants", "create", "acme"): "tenant.create",
        ("tenants", "weight", "acme", "2"): "tenant.weight",
        ("tenants", "retention", "acme", "9"): "tenant.retention",
        ("jobs", "cancel", str(job)): "job.cancel",
        ("jobs", "retry", str(job)): "job.retry",
    }
    for command in commands:
        answer = posthouse(*command)
        assert answer.code == 0, answer.err
    (posthouse.folder / "hello.json").write_text(json.dumps({"command": {"argv": ["/bin/true"]}}))
    assert posthouse("definitions", "create", "hello", "--file", "hello.json").code == 0
    assert posthouse("definitions", "edit", "hello", "--priority", "5").code == 0
    assert posthouse("definitions", "deactivate", "hello").code == 0
    assert posthouse("definitions", "remove", "hello").code == 0
    wanted = [
        *commands.values(),
        "definition.create", "definition.change", "definition.deactivate", "definition.remove",
    ]  # fmt: skip
    found = entries()
    assert [action for action, *_ in found] == wanted
    assert db.execute("select distinct actor from posthouse.audit").fetchall() == [(ME,)]
    for action, target, before, after in found:
        assert (before, after) != (None, None), action
        assert target in {"mail", "few", "acme", str(worker), str(job), "hello"}, action


def test_a_setting_names_the_actor(posthouse, db):
    posthouse("queues", "pause", "mail", POSTHOUSE_ACTOR="deploy-bot")
    assert db.execute("select actor from posthouse.audit").fetchall() == [("cli:deploy-bot",)]


@pytest.fixture
def history(db):
    """Six things that three people did."""
    for number, (actor, action, tenant, target) in enumerate([
        ("anna", "job.cancel", "acme", "a"),
        ("anna", "job.retry", "acme", "a"),
        ("ben", "job.retry", "other", "b"),
        ("ben", "queue.pause", None, "mail"),
        ("cleo", "queue.resume", None, "mail"),
        ("cleo", "jobs.purge", None, "x"),
    ]):  # fmt: skip
        db.execute("select posthouse.write_audit(%s, %s, %s, %s, %s, %s)", (
            actor, action, tenant, target, json.dumps({"n": number}), json.dumps({"n": number + 1}),
        ))  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        ([], [5, 4, 3, 2, 1, 0]),
        (["--actor", "anna"], [1, 0]),
        (["--action", "job"], [2, 1, 0]),
        (["--action", "job.retry"], [2, 1]),
        (["--target", "mail"], [4, 3]),
        (["--tenant", "acme", "--action", "job.cancel"], [0]),
        (["--since", "1h"], [5, 4, 3, 2, 1, 0]),
        (["--until", "1h"], []),
        (["--since", "2999-01-01T00:00Z"], []),
        (["--limit", "2"], [5, 4]),
    ],
)
def test_entries_are_found_by_who_what_whom_and_when(posthouse, history, flags, numbers):
    found = posthouse("audit", "list", "--json", *flags).json
    assert [entry["before"]["n"] for entry in found] == numbers


def test_a_list_goes_on_behind_the_last_entry_seen(posthouse, history):
    seen, flags = [], []
    while found := posthouse("audit", "list", "--limit", "4", "--json", *flags).json:
        seen += [entry["before"]["n"] for entry in found]
        flags = ["--after", str(found[-1]["id"])]
    assert seen == [5, 4, 3, 2, 1, 0]


def test_a_table_says_what_changed(posthouse, history):
    answer = posthouse("audit", "list", "--actor", "ben")
    first = answer.out.splitlines()[1]
    assert "queue.pause" in first
    assert "n: 3 → 4" in first
    assert posthouse("audit", "list", "--actor", "absent").err == "no audit entries match\n"


def test_who_follows_sees_what_was_and_what_comes(posthouse, history):
    following = posthouse.start("audit", "list", "--follow", "--json", "--limit", "1")
    assert json.loads(following.line())["action"] == "jobs.purge"
    posthouse("queues", "pause", "later")
    assert json.loads(following.line())["target"] == "later"


@pytest.mark.parametrize("flags", [["--since", "yesterday"], ["--limit", "0"], ["--limit", "1001"]])
def test_what_cannot_be_meant_is_wrong_usage(posthouse, flags):
    answer = posthouse("audit", "list", *flags)
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err


async def test_pages_are_never_larger_than_the_most(database):
    with pytest.raises(ConfigurationError, match="limit must be between 1 and 1,000"):
        insights.AuditFilter(limit=5000)
    async with await connect_async(database, "tests") as connection:
        assert await insights.list_audit(connection) == []
