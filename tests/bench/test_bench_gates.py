"""The table of gates at the end of `make bench`."""

import pytest

OWN = {
    "drain_1_rounds": [40_000, 30_000, 90_000],
    "drain_2": 42_000,
    "drain_2_rounds": [42_000, 31_500, 50_000],
    "enqueue_one": 1_000,
    "enqueue_bulk": 80_000,
    "enqueue_to_start_ms": {"p99": 5.0},
    "rss_mb": 75.1,
    "pinned_ratio": 0.9,
    "backlog_ratio": 0.95,
    "limits_ratio": 0.79,
    "rescue_s": {"max": 3.0},
    "machine_us_per_job": 40.0,
    "wal_bytes_per_job": 1_100,
}
RIVAL = {
    "drain_1_rounds": [40_000, 30_000, 60_000],
    "drain_2_rounds": [41_000, 31_500, 50_000],
    "enqueue_one": 900,
    "enqueue_bulk": 50_000,
    "enqueue_to_start_ms": {"p99": 6.0},
    "machine_us_per_job": 50.0,
}


@pytest.fixture
def verdicts(monkeypatch, pytestconfig):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    from bench import gates  # noqa: PLC0415 - not a package that tests import

    def found(queues):
        return {(row["name"], row["kind"]): row["verdict"] for row in gates.verdicts({"stock": queues})}

    return found


def test_a_figure_at_its_bound_passes_and_one_beyond_it_fails(verdicts):
    found = verdicts({"posthouse": OWN | {"jit_ratio": 0.89}, "graphile-worker": RIVAL})
    assert found == {
        ("as it is / JIT off", "gate"): "FAIL",
        ("drain_2 / drain_1", "gate"): "pass",
        ("drain_1 / graphile-worker", "gate"): "FAIL",
        ("drain_2 / graphile-worker", "gate"): "pass",
        ("enqueue_bulk / best peer", "gate"): "FAIL",
        ("enqueue_one / best peer", "gate"): "pass",
        ("enqueue to start p99 / best peer", "gate"): "pass",
        ("worker process, MB", "gate"): "FAIL",
        ("pinned_ratio", "gate"): "pass",
        ("backlog_ratio", "gate"): "pass",
        ("limits_ratio", "gate"): "FAIL",
        ("rescue max, s", "gate"): "pass",
        ("drain_2 / graphile-worker", "goal"): "missed",
        ("drain_2, jobs/s", "goal"): "missed",
        ("machine CPU per job / graphile-worker", "goal"): "pass",
        ("WAL per job, bytes", "goal"): "missed",
    }


def test_drains_are_compared_round_by_round(verdicts):
    slow_minute = {"drain_1_rounds": [30_000, 3_000, 30_000]}
    found = verdicts(
        {
            "posthouse": OWN | {"drain_1_rounds": [40_000, 4_000, 40_000]},
            "graphile-worker": RIVAL | slow_minute,
        }
    )
    assert found["drain_1 / graphile-worker", "gate"] == "pass"


def test_a_comparison_with_a_peer_that_failed_was_not_measured(verdicts):
    found = verdicts({"posthouse": OWN, "graphile-worker": {"error": "cannot install"}})
    missing = {name for (name, _), verdict in found.items() if verdict == "not measured"}
    assert missing == {
        "drain_1 / graphile-worker",
        "drain_2 / graphile-worker",
        "enqueue_bulk / best peer",
        "enqueue_one / best peer",
        "enqueue to start p99 / best peer",
        "machine CPU per job / graphile-worker",
    }
