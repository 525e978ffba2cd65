"""Job ids that are given in part."""

from uuid import UUID, uuid4

import pytest

from posthouse import insights
from support.terminal import terminal


@pytest.fixture
def two_alike(enqueue, db):
    """Two jobs whose ids end with the same eight characters."""
    ids = [UUID(f"01890a5d-ac96-774b-bcce-{start}b302099a") for start in ("aaaa", "bbbb")]
    for number, job_id in enumerate(ids):
        made = enqueue("mail", subject=f"letter {number}")
        db.execute("update posthouse.ready set id = %s where id = %s", (job_id, made))
    return ids


@pytest.mark.parametrize("part", [slice(24), slice(-8, None), slice(-17, None), slice(-4, None)])
def test_a_job_is_found_by_the_start_or_the_end_of_its_id(posthouse, enqueue, part):
    enqueue("other")
    job = str(enqueue("mail"))
    assert posthouse("jobs", "show", job[part], "--json").json["id"] == job


@pytest.mark.parametrize("command", ["show", "attempts", "why", "logs"])
def test_every_command_that_shows_a_job_takes_the_end_of_its_id(posthouse, enqueue, command):
    job = str(enqueue("mail"))
    assert posthouse("jobs", command, job[-8:].upper()).code == 0


def test_a_job_is_canceled_and_retried_by_the_end_of_its_id(posthouse, enqueue):
    job = str(enqueue("mail"))
    assert posthouse("jobs", "cancel", job[-8:], "--json").json == [{"id": job, "status": "canceled"}]
    assert posthouse("jobs", "retry", job[-8:], "--json").json == [{"id": job, "status": "queued"}]


def test_a_list_goes_on_behind_a_job_that_is_given_by_the_end_of_its_id(posthouse, enqueue):
    ids = [str(enqueue("mail")) for _ in range(3)]
    rest = posthouse("jobs", "list", "--after", ids[1][-8:], "--json").json
    assert [job["id"] for job in rest] == [ids[0]]


def test_an_ambiguous_part_is_wrong_usage_and_lists_the_candidates(posthouse, two_alike):
    answer = posthouse("jobs", "cancel", "b302099a")
    assert answer.code == 1
    assert "ambiguous" in answer.err
    assert [line.split() for line in answer.err.splitlines()[1:]] == [
        [str(job), "mail", "queued"] for job in reversed(two_alike)
    ]
    assert posthouse("jobs", "show", "b302099a").code == 2
    assert posthouse("jobs", "show", "bbbbb302099a", "--json").json["id"] == str(two_alike[1])


def test_a_part_that_no_job_has_says_how_far_was_searched(posthouse):
    answer = posthouse("jobs", "show", "ffff1234")
    assert answer.code == 1
    assert "no job id starts or ends with 'ffff1234'" in answer.err
    assert "newest 100,000 jobs" in answer.err


@pytest.mark.parametrize("text", ["x", "abc", "not-a-job", "01890a5d-ac96-774b-bcce-b302099a80571"])
def test_what_cannot_be_an_id_is_wrong_usage_without_a_database(offline, text):
    answer = offline("jobs", "show", text)
    assert answer.code == 2
    assert "is not a job id" in answer.err


async def test_a_suffix_is_searched_among_the_newest_jobs_only(connection, enqueue):
    old, *_ = [str(enqueue("mail")) for _ in range(4)]
    assert await insights.jobs_by_part_of_id(connection, old[-12:], searched=3) == []
    (found,) = await insights.jobs_by_part_of_id(connection, old[-12:], searched=4)
    assert (str(found.id), found.kind, found.status) == (old, "mail", "queued")


def test_a_list_on_a_terminal_shows_the_end_of_each_id(posthouse, enqueue):
    job = str(enqueue("mail"))
    with terminal(posthouse, "jobs", "list") as screen:
        assert screen.end() == 0
        assert job[-8:] in screen.shown
        assert job not in screen.shown


def test_an_unknown_full_id_is_not_found(posthouse):
    assert "does not exist" in posthouse("jobs", "show", uuid4()).err
