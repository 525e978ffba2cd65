"""posthouse top."""

import pytest

from support.terminal import terminal


@pytest.fixture
def busy(enqueue, fleet):
    """A worker that runs one mail while another is ready."""
    worker = fleet.register("studio", concurrency=2)
    fleet.beat(worker)
    job = enqueue("mail")
    enqueue("mail")
    assert fleet.claim(worker) == job
    return job


def test_one_frame_shows_queues_workers_and_running_jobs(posthouse, busy):
    answer = posthouse("top", "--once")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert "1 ready, 0 scheduled, 0 blocked, 1 running" in lines[0]
    assert "1 worker online" in lines[0]
    assert any(line.split()[:5] == ["default", "1", "0", "0", "1"] for line in lines)
    assert any(line.split()[:3] == ["studio", "active", "1/2"] for line in lines)
    assert any(line.split()[:4] == [str(busy), "mail", "default", "studio"] for line in lines)
    assert "no failures in the last hour" in lines


def test_a_frame_as_json(posthouse, busy):
    found = posthouse("top", "--json").json
    assert [job["id"] for job in found["jobs"]] == [str(busy)]
    (queue,) = found["queues"]
    assert (queue["name"], queue["ready"], queue["running"]) == ("default", 1, 1)
    assert [worker["name"] for worker in found["workers"]] == ["studio"]
    assert found["failures"] == []


def test_without_a_terminal_one_frame_is_printed(posthouse):
    answer = posthouse("top")
    assert answer.code == 0
    assert "no workers online" in answer.out
    assert "\x1b" not in answer.out


def test_an_empty_database_says_what_to_do(posthouse):
    assert "enqueue a job or start a worker" in posthouse("top", "--once").out


def test_q_quits_and_leaves_the_terminal_as_it_was(posthouse, busy):
    with terminal(posthouse, "top") as screen:
        screen.wait_for(str(busy)[-8:])
        screen.type("q")
        assert screen.end() == 0
        assert screen.shown.rstrip().endswith("\x1b[?25h\x1b[?1049l")  # cursor shown, old screen back
        assert "Traceback" not in screen.shown


def test_control_c_quits_cleanly(posthouse, busy):
    with terminal(posthouse, "top") as screen:
        screen.wait_for("q: quit")
        screen.type("\x03")
        assert screen.end() == 0
        assert "Traceback" not in screen.shown


def test_the_view_follows_what_happens(posthouse, enqueue):
    with terminal(posthouse, "top") as screen:
        screen.wait_for("no queues yet")
        enqueue("mail", queue="letters")
        screen.wait_for("letters")
        screen.type("q")
        assert screen.end() == 0
