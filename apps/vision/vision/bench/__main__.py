"""python -m vision.bench [reading] [selection] [memory] [search]: print tables in Markdown."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from vision.bench.measuring import Row, describe_scale, measure_reading, measure_selection
from vision.bench.memory import measure_memory
from vision.bench.searching import measure_search

PARTS = ("reading", "selection", "memory", "search")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vision.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"measurements: {', '.join(PARTS)}; default: all")
    parser.add_argument("--minutes", type=int, default=20, help="length of the video for memory; default 20")
    parser.add_argument(
        "--segments", type=int, default=1_000_000, help="segments to search; default 1 million"
    )
    options = parser.parse_args()
    parts = options.parts or PARTS
    with tempfile.TemporaryDirectory(prefix="vision-bench-") as name:
        if "reading" in parts:
            _print_table(f"Reading ({describe_scale()})", measure_reading())
        if "selection" in parts:
            _print_table("Selection", measure_selection(Path(name)))
        if "memory" in parts:
            _print_table("Memory", measure_memory(Path(name), options.minutes))
        if "search" in parts:
            _print_table(f"Search over {options.segments:,} segments", measure_search(options.segments))


def _print_table(title: str, rows: Iterable[Row]) -> None:
    _say(f"\n## {title}\n")
    for number, row in enumerate(rows):
        if number == 0:
            _say(_line(row))
            _say(_line(["---"] * len(row)))
        _say(_line(row.values()))


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
