"""The figures that `make bench` measures in turns."""

from contextlib import contextmanager

import pytest


@pytest.fixture
def turns(monkeypatch, pytestconfig):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    from bench.peers import turns  # noqa: PLC0415 - not a package that tests import

    return turns


@pytest.fixture
def measured(turns, monkeypatch):
    """The order of the measurements, which are made up: the second one of "broken" fails."""
    from bench.peers.measure import Drain  # noqa: PLC0415 - not a package that tests import

    order = []

    class Measurement:
        def __init__(self, peer, *_):
            self.name = peer.name

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def setup(self):
            order.append(f"{self.name} setup")
            return {"version": "1.0"}

        bulk_rates = (10.0, 30.0)

        def drain(self, *, workers):
            return Drain(1000.0 * workers * (1 + order.count(self.name)), 50.0 + len(order), 20.0)

        def one_by_one(self):
            order.append(self.name)
            if self.name == "broken" and order.count("broken") == 2:
                raise turns.PeerError("its worker ended")
            return 100.0 * len(order), [float(len(order))] * 100

    @contextmanager
    def own_database(_, name):
        yield name

    monkeypatch.setattr(turns, "Measurement", Measurement)
    monkeypatch.setattr(turns, "own_database", own_database)
    return order


def peers(turns, *names):
    return [turns.Peer(name=name, script="", unfinished_sql="") for name in names]


def test_each_round_measures_every_queue_once(turns, measured):
    turns.measure_in_turns(peers(turns, "one", "two"), "", 20_000)
    assert measured == ["one setup", "one", "two setup", "two", *["one", "two"] * 4]


def test_the_median_round_counts(turns, measured):
    found = turns.measure_in_turns(peers(turns, "one"), "", 20_000)["one"]
    assert found["version"] == "1.0"
    assert found["enqueue_one"] == 400
    assert found["enqueue_one_rounds"] == [200, 300, 400, 500, 600]
    assert found["enqueue_bulk"] == 20
    assert found["drain_1"] == 3000
    assert found["drain_2_rounds"] == [2000, 4000, 6000, 8000, 10_000]
    assert found["rss_mb"] == 55.0
    assert found["enqueue_to_start_ms"] == {"p50": 4.0, "p95": 4.0, "p99": 4.0}


def test_a_queue_that_fails_stops_no_other(turns, measured):
    found = turns.measure_in_turns(peers(turns, "broken", "one"), "", 20_000)
    assert found["broken"] == {"error": "PeerError: its worker ended"}
    assert found["one"]["enqueue_one_rounds"] == [400, 600, 700, 800, 900]


def test_a_check_of_the_benchmark_takes_one_round(turns, measured):
    turns.measure_in_turns(peers(turns, "one", "two"), "", 300)
    assert measured == ["one setup", "one", "two setup", "two"]
