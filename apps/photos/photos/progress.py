"""Progress of a command, as lines that Posthouse reads."""

from __future__ import annotations

import json
import sys


class Progress:
    def __init__(self, *, on: bool) -> None:
        self._on = on

    def report(self, step: str, done: int, total: int) -> None:
        if self._on:
            percent = round(100 * done / total, 1) if total else 100
            report = {"percent": percent, "step": step, "message": f"{done} of {total}"}
            sys.stdout.write(f"posthouse: {json.dumps(report)}\n")
            sys.stdout.flush()
