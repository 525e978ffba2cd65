"""Measure the peers: `python -m bench.peers --database-url URL`."""

import argparse
import json
import subprocess
from collections.abc import Sequence

from bench.progress import announce

from .catalogue import DEFAULT_JOBS, PEERS, Peer
from .environments import InstallError, prepare_node, prepare_python
from .measure import Result, measure_guarantees
from .scripts import Deadline, PeerError
from .server import own_database
from .table import table
from .turns import measure_in_turns

# For each peer, so that a slow one takes no time from the next.
GUARANTEES_SECONDS = 40


def main() -> None:
    arguments = _arguments()
    peers = [peer for peer in PEERS if not arguments.only or peer.name in arguments.only]
    results = measure_peers(peers, arguments.database_url, arguments.jobs)
    print(json.dumps(results) if arguments.json else table(results))


def measure_peers(peers: Sequence[Peer], server_url: str, jobs: int = DEFAULT_JOBS) -> dict[str, Result]:
    """Return the figures of each queue, or the error of one that cannot be installed or fails."""
    broken = _prepare(peers)
    able = [peer for peer in peers if peer.name not in broken]
    results = broken | measure_in_turns(able, server_url, jobs)
    for peer in able:
        if peer.guarantees and "error" not in results[peer.name]:
            results[peer.name] |= _with_guarantees(peer, server_url, jobs)
    return {peer.name: results[peer.name] for peer in peers}


def _prepare(peers: Sequence[Peer]) -> dict[str, Result]:
    """Make the environments that are needed; return the peers that have none."""
    broken: dict[str, Result] = {}
    for on_node, prepare in ((False, prepare_python), (True, prepare_node)):
        concerned = [peer for peer in peers if peer.on_node is on_node]
        if not concerned:
            continue
        try:
            prepare()
        except (InstallError, OSError, subprocess.SubprocessError) as error:
            broken |= {peer.name: {"error": f"cannot install: {error}"} for peer in concerned}
    return broken


def _with_guarantees(peer: Peer, server_url: str, jobs: int) -> Result:
    announce(f"{peer.name}: drain with {peer.guarantees}")
    try:
        with own_database(server_url, peer.name) as database_url:
            return measure_guarantees(peer, database_url, jobs, Deadline(GUARANTEES_SECONDS))
    except PeerError as error:
        return {"guarantees": f"{peer.guarantees}: {error}"}


def _arguments() -> argparse.Namespace:
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--database-url", required=True, help="a server to make databases on")
    parser.add_argument("--only", type=_names, help=f"some of {','.join(names)}")
    parser.add_argument("--jobs", type=int, default=DEFAULT_JOBS, help="jobs in a drain")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def _names(given: str) -> list[str]:
    names = given.split(",")
    unknown = set(names) - {peer.name for peer in PEERS}
    if unknown:
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    main()
