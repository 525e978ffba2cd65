"""The table of `posthouse bench`."""

from posthouse.cli.bench import _table


def test_every_figure_of_a_run_is_printed():
    figures = {
        "drain_1": 41453,
        "single": None,
        "pickup_ms": {"p50": 0.96},
        "backlog_rounds": [[1000, 2], [3, 4]],
    }
    lines = [line.split(maxsplit=1) for line in _table(figures).splitlines()]
    assert lines == [
        ["drain_1", "41,453"],
        ["single", "-"],
        ["pickup_ms", "p50 0.96"],
        ["backlog_rounds", "1,000  2; 3  4"],
    ]
