"""posthouse failures: what people see of failures, and how they run their jobs again."""

import json

import pytest

from support.waiting import eventually_sync
from support.workers import status_counts

APP = """
import pathlib

import posthouse

app = posthouse.App()


@app.job(max_attempts=1)
async def charge(order: int) -> None:
    if not pathlib.Path("mended").exists():
        raise ValueError(f"order {order} was declined")
"""


@pytest.fixture
def worker(posthouse):
    """A worker, with a keeper, whose handler fails until the file ``mended`` is there."""
    worker = posthouse.start("worker", "--app", posthouse.write_app("till", APP), "--log-text")
    worker.line()
    return worker


@pytest.fixture
def failed(posthouse, worker, db):
    """Some jobs have failed; the fingerprint of their group."""
    for order in range(8):
        db.execute(
            "select posthouse.enqueue('charge', %s, max_attempts => 1)", (json.dumps({"order": order}),)
        )
    eventually_sync(lambda: status_counts(db) == {"dead_letter": 8}, what="the jobs being dead")
    [group] = posthouse("failures", "list", "--json").json
    return group["fingerprint"]


def test_failures_are_listed_and_shown(posthouse, failed):
    listed = posthouse("failures")
    assert listed.code == 0
    for text in (failed, "charge", "ValueError: order"):
        assert text in listed.out
    shown = posthouse("failures", "show", failed[:6])
    for text in ("till.charge", "8 dead letter", "Traceback", "8 in the last hour", "dead_letter"):
        assert text in shown.out
    detail = posthouse("failures", "show", failed, "--json", "--jobs", "3").json
    assert detail["group"]["dead_letter"] == 8
    assert len(detail["jobs"]) == 3
    assert posthouse("failures", "list", "--kind", "other").err == "no failures\n"


def test_a_mended_fault_is_retried_to_the_end(posthouse, failed, db, tmp_path):
    assert posthouse("failures", "retry", failed, "--dry-run", "--json").json == {"jobs": 8}
    (tmp_path / "mended").touch()
    done = posthouse("failures", "retry", failed, "--rate", "100/s")
    assert done.code == 0
    assert done.out.startswith("done: 8 of 8 retried")
    eventually_sync(lambda: status_counts(db) == {"succeeded": 8}, what="the jobs being done")


def test_a_retry_that_fails_again_halts_and_says_so(posthouse, failed):
    done = posthouse(
        "failures", "retry", "--kind", "charge", "--rate", "1/s", "--stop-at", "20%", "--stop-after", "2",
        "--json",
    )  # fmt: skip
    assert done.code == 1
    assert done.json["state"] == "halted"
    assert done.json["failed"] >= 2
    assert done.json["retried"] < 8
    listed = posthouse("failures", "retries")
    assert "halted" in listed.out
    assert "failed again" in listed.out


def test_a_detached_retry_goes_on_and_can_be_stopped(posthouse, failed):
    answer = posthouse("failures", "retry", failed, "--rate", "1/m", "--detach", "--json").json
    assert answer["state"] in {"gathering", "running"}
    assert "stopped" in posthouse("failures", "stop", answer["id"]).out
    assert posthouse("failures", "stop", answer["id"], "--json").json == {
        "id": answer["id"],
        "stopped": False,
    }
    [bulk] = posthouse("failures", "retries", "--json").json
    assert (bulk["id"], bulk["state"]) == (answer["id"], "stopped")


def test_wrong_usage_is_explained(posthouse):
    for arguments, message in (
        (("failures", "retry"), "no jobs selected"),
        (("failures", "retry", "--kind", "k", "--rate", "fast"), "10/s"),
        (("failures", "retry", "--kind", "k", "--stop-at", "most"), "20%"),
        (("failures", "list", "--since", "soon"), "30s, 5m"),
        (("failures", "list", "--limit", "0"), "limit must be between 1"),
        (("failures", "stop", "5"), "not a bulk retry id"),
    ):
        answer = posthouse(*arguments)
        assert (answer.code, message in answer.err) == (2, True), (arguments, answer.err)


def test_an_unknown_failure_group_is_an_error(posthouse):
    for print_ in ("0000", "%"):
        answer = posthouse("failures", "show", print_)
        assert answer.code == 1
        assert f"failure group {print_!r} does not exist" in answer.err


def test_jobs_that_a_line_finds_are_retried(posthouse, failed, db, tmp_path):
    line = ("jobs", "retry", "--filter", "payload.order:>3 error:declined")
    assert posthouse(*line, "--dry-run", "--json").json == {"jobs": 4, "exact": True}
    assert posthouse(*line, "--dry-run", "--limit", "3").out == "3 jobs would be retried\n"
    (tmp_path / "mended").touch()
    done = posthouse(*line, "--rate", "1000/s")
    assert (done.code, done.out.startswith("done: 4 of 4 retried")) == (0, True), done.out + done.err
    eventually_sync(
        lambda: status_counts(db) == {"dead_letter": 4, "succeeded": 4}, what="the four being done"
    )


def test_jobs_that_a_line_finds_are_canceled(posthouse, worker, db):
    for tenant in ("acme", "acme", "other"):
        db.execute("select posthouse.enqueue('charge', '{}', tenant_id => %s, delay => '1h')", (tenant,))
    line = ("jobs", "cancel", "--filter", "kind:charge", "--tenant", "acme")
    assert posthouse(*line, "--dry-run").out == "2 jobs would be canceled\n"
    done = posthouse(*line)
    assert (done.code, done.out) == (0, "done: 2 of 2 canceled\n"), done.err
    assert status_counts(db) == {"canceled": 2, "queued": 1}
    entries = posthouse("audit", "list", "--action", "jobs.cancel", "--json").json
    assert entries[-1]["actor"].startswith("cli:")


def test_what_cannot_be_meant_is_refused_and_changes_nothing(posthouse):
    for arguments, said in (
        ((), "job ids or --filter"),
        (("--filter", "kind:a", "01890a5d-ac96-774b-bcce-b302099a8057"), "job ids or --filter"),
        (("--filter", ""), "at least one term"),
        (("--filter", "kin:a"), "kin"),
        (("--filter", "status:running"), "only failed, dead-letter and canceled jobs"),
        (("--filter", "kind:a", "--rate", "fast"), "fast"),
        (("--filter", "kind:a", "--stop-at", "150%"), "--stop-at"),
        (("--filter", "kind:a", "--fresh"), "--fresh is allowed only with job ids"),
        (("01890a5d-ac96-774b-bcce-b302099a8057", "--dry-run"), "--dry-run is allowed only with --filter"),
    ):
        answer = posthouse("jobs", "retry", *arguments)
        assert (answer.code, said in answer.err) == (2, True), (arguments, answer.err)
