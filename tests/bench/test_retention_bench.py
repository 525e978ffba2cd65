"""The benchmark of retention, small: that it lets go of what it says while jobs are finished."""

import functools

import pytest

from posthouse import testing


@pytest.fixture
def bench(server, monkeypatch, pytestconfig):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    from bench import retention  # noqa: PLC0415 - not a package that tests import

    monkeypatch.setattr(retention.testing, "database", functools.partial(testing.database, server))
    return retention


@pytest.mark.parametrize(
    ("name", "left", "counts"),
    [
        pytest.param("plain", 0, {"dropped": 10, "shrunk": 0, "deleted": 0}, marks=pytest.mark.soak),
        ("longer", 2_000, {"dropped": 0, "shrunk": 10, "deleted": 0}),
        pytest.param("shorter", 19_800, {"dropped": 0, "shrunk": 0, "deleted": 200}, marks=pytest.mark.soak),
    ],
)
def test_a_long_history_is_deleted_while_jobs_finish(bench, name, left, counts):
    found = bench.played(20_000, bench.SCENES[name])
    assert found["left"] == left
    assert found.items() >= counts.items()
    assert found["finishes"] > 0
