#!/usr/bin/env python3
"""Write the pages that are generated from the code: ``python tools/reference.py``.

With ``--into DIR`` the pages are written below that folder instead of the repository.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docpages import commands, errors, http, lifecycle, metrics, python, settings

PAGES = {
    "docs/lifecycle.md": lifecycle.page,
    "docs/reference/commands.md": commands.page,
    "docs/reference/errors.md": errors.page,
    "docs/reference/http.md": http.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/python.md": python.page,
    "docs/reference/settings.md": settings.page,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=Path(__file__).parents[1], help="folder to write to")
    root = parser.parse_args().into
    for name, page in PAGES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page())
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
