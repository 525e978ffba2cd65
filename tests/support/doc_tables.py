"""Tables of the documentation, for tests that compare them with the code."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def table(page, first):
    """The rows of the table whose first heading is this one, as dicts by heading."""
    lines = (DOCS / page).read_text().splitlines()
    [start] = [number for number, line in enumerate(lines) if line.startswith(f"| {first} |")]
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    heading, _, *found = rows
    return [dict(zip(heading, row, strict=True)) for row in found]
