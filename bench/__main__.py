"""`make bench`: Posthouse and the peers that can be installed, on each of two Postgres servers.

The embedded server is tuned; the one of the distribution has default settings, as most users have it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from posthouse.storage.embedded import attach_server

from .gates import verdict_table, verdicts
from .idle import measure_idle
from .own import measure_own
from .peers.__main__ import measure_peers
from .peers.catalogue import DEFAULT_JOBS, PEERS, POSTHOUSE
from .peers.table import table
from .progress import announce
from .stock import BINARIES, MISSING, stock_server

# What stands in the table beside the peers.
BESIDE = {
    "version",
    "drain_1",
    "drain_2",
    "enqueue_one",
    "enqueue_bulk",
    "guarantees",
    "drain_1_guarantees",
    "drain_2_guarantees",
}
RESULTS = Path(__file__).parent / "results"


@contextmanager
def _embedded_server() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="posthouse-bench-") as folder,
        attach_server(Path(folder) / "postgres") as embedded,
    ):
        yield embedded.admin_url_for()


SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "embedded": _embedded_server,
    "stock": stock_server,
}


def main() -> None:
    arguments = _arguments()
    run: dict[str, Any] = {name: _measure(name, arguments) for name in _servers(arguments.server)}
    found = verdicts(run)
    if not arguments.no_idle and arguments.jobs is None:
        announce("idle installations")
        run["idle_cpu_percent"] = measure_idle()
    run["gates"] = found
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    file.write_text(json.dumps(run, indent=2) + "\n")
    print(json.dumps(run) if arguments.json else _report(run))
    announce(f"written to {file.relative_to(RESULTS.parent.parent)}")


def _servers(chosen: str | None) -> list[str]:
    if BINARIES is None and chosen != "embedded":
        print(f"left out the server with default settings: {MISSING}", file=sys.stderr)
        return ["embedded"]
    return [chosen] if chosen else list(SERVERS)


def _measure(server: str, arguments: argparse.Namespace) -> dict[str, Any]:
    announce(f"on the {server} Postgres")
    with SERVERS[server]() as url:
        own = measure_own(url, arguments.jobs, with_jit=server == "stock")
        if arguments.no_peers:
            return {"posthouse": own}
        jobs = DEFAULT_JOBS if arguments.jobs is None else arguments.jobs
        queues = measure_peers([POSTHOUSE, *PEERS], url, jobs)
    if "error" in (turns := queues[POSTHOUSE.name]):
        raise RuntimeError(f"Posthouse could not be measured in turns with the peers: {turns['error']}")
    return queues | {"posthouse": own | turns}


def _report(run: dict[str, Any]) -> str:
    tables = [_table(name, run[name]) for name in SERVERS if name in run]
    idle = f"idle_cpu_percent: {run.get('idle_cpu_percent', '-')}"
    return "\n\n".join([*tables, idle, verdict_table(run["gates"])])


def _table(server: str, queues: dict[str, Any]) -> str:
    own = queues["posthouse"]
    alone = [name for name in own if name not in BESIDE]
    return "\n".join(
        [f"{server} Postgres", table(queues), "", *(f"posthouse {name}: {own[name]}" for name in alone)]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--jobs", type=int, help="a check of the benchmark: no more than so many jobs each")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--no-peers", action="store_true", help="measure Posthouse alone")
    parser.add_argument("--no-idle", action="store_true", help="leave out the CPU of an idle installation")
    parser.add_argument("--server", choices=list(SERVERS), help="measure on one of the two servers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
