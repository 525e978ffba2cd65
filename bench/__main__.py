"""`make bench`: Posthouse and the peers that can be installed, one after the other on the same Postgres."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from posthouse.settings import load_settings
from posthouse.storage.server import close_embedded, database_url

from .idle import measure_idle
from .peers.__main__ import measure_peers
from .peers.catalogue import PEERS
from .peers.table import table

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    arguments = _arguments()
    try:
        url = database_url(load_settings())
        own = _posthouse(url)
        peers = {} if arguments.no_peers else measure_peers(list(PEERS), url)
    finally:
        close_embedded()
    own["idle_cpu_percent"] = measure_idle()
    everything: dict[str, Any] = {"posthouse": own, **peers}
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    file.write_text(json.dumps(everything, indent=2) + "\n")
    print(json.dumps(everything) if arguments.json else _report(everything))
    print(f"written to {file.relative_to(Path.cwd())}", file=sys.stderr)


def _posthouse(url: str) -> dict[str, Any]:
    print("measuring posthouse", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "posthouse", "bench", "--json"]
    environment = {**os.environ, "POSTHOUSE_DATABASE_URL": url}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return {"version": version("posthouse"), **json.loads(done.stdout)}


def _report(everything: dict[str, Any]) -> str:
    own = everything["posthouse"]
    alone = [name for name in own if name not in {"drain_1", "drain_2", "enqueue_one", "enqueue_bulk"}]
    # The peers are measured from just before the enqueue: so is the figure that stands beside theirs.
    beside = {**everything, "posthouse": {**own, "pickup_ms": own["enqueue_to_start_ms"]}}
    lines = [table(beside), "", *(f"posthouse {name}: {own[name]}" for name in alone)]
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--no-peers", action="store_true", help="measure Posthouse alone")
    return parser.parse_args()


if __name__ == "__main__":
    main()
