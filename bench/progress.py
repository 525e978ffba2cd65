"""One line for each stage of a run, with the time since its start."""

from __future__ import annotations

import sys
import time

_STARTED = time.monotonic()


def announce(stage: str) -> None:
    minutes, seconds = divmod(round(time.monotonic() - _STARTED), 60)
    print(f"{minutes:2}:{seconds:02}  {stage}", file=sys.stderr, flush=True)
