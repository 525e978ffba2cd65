"""Commands as users start them: each by an interpreter of its own, in which nothing is loaded yet."""

import subprocess

import pytest

from support import forkserver

FRESH = {forkserver.NEW_INTERPRETER: "1"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("worker", "--app", "shop:app"), "worker "),
        pytest.param(("keeper",), "keeper", marks=pytest.mark.soak),
        pytest.param(("server", "--port", "0"), "http://127.0.0.1:", marks=pytest.mark.soak),
        pytest.param(
            ("up", "--port", "0", "--app", "shop:app"), "Posthouse is ready", marks=pytest.mark.soak
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_it_starts_says_so_and_ends_when_told_to(posthouse, arguments, said):
    posthouse.write_app()
    started = posthouse.start(*arguments, **FRESH)
    assert isinstance(started.process, subprocess.Popen)
    assert said in started.line()
    assert started.stop() == 0


def test_a_command_that_ends_by_itself(posthouse):
    job = posthouse("enqueue", "greet", **FRESH)
    assert job.code == 0, job.err
    assert posthouse("jobs", "show", job.out.strip(), "--json", **FRESH).json["kind"] == "greet"
