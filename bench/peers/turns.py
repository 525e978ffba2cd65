"""All queues in turns: every round measures each queue once.

So a slow minute of the machine or its disk affects all of them.
"""

import statistics
from collections.abc import Sequence
from contextlib import ExitStack

from bench.progress import announce

from .catalogue import Peer
from .measure import FEWEST_JOBS, Drain, Measurement, Result, highest_rss, median_cpu, median_rate
from .scripts import Deadline, PeerError
from .server import own_database

ROUNDS = 5
TURN_SECONDS = 90


def measure_in_turns(peers: Sequence[Peer], server_url: str, jobs: int) -> dict[str, Result]:
    """Return the figures of each queue, or the error of one that failed."""
    results: dict[str, Result] = {}
    with ExitStack() as databases:
        open_turns: dict[str, Turns] = {}
        for peer in peers:
            url = databases.enter_context(own_database(server_url, f"{peer.name}_turns"))
            open_turns[peer.name] = Turns(peer, url, jobs)
        for number in range(1 if jobs < FEWEST_JOBS else ROUNDS):
            for name, turns in list(open_turns.items()):
                announce(f"{name}: drain, enqueue one by one, enqueue to start, round {number + 1}")
                try:
                    turns.run()
                except Exception as error:  # noqa: BLE001  a failing peer must not stop the others
                    results[name] = {"error": f"{type(error).__name__}: {error}"}
                    del open_turns[name]
        results |= {name: turns.result() for name, turns in open_turns.items()}
    return results


class Turns:
    """The turns of one queue, in a database of its own."""

    def __init__(self, peer: Peer, database_url: str, jobs: int) -> None:
        self._peer = peer
        self._url = database_url
        self._jobs = jobs
        self._setup: Result = {}
        self._bulk_rates: list[float] = []
        self._drains: dict[int, list[Drain]] = {1: [], 2: []}
        self._rates: list[float] = []
        self._delays: list[dict[str, float]] = []

    def run(self) -> None:
        measurement = Measurement(self._peer, self._url, self._jobs, Deadline(TURN_SECONDS))
        with measurement:
            self._setup = self._setup or measurement.setup()
            for workers, drains in self._drains.items():
                drains.append(measurement.drain(workers=workers))
            rate, delays_ms = measurement.one_by_one()
        self._bulk_rates.extend(measurement.bulk_rates)
        self._rates.append(rate)
        self._delays.append(percentiles(delays_ms))

    def result(self) -> Result:
        return {
            **self._setup,
            "enqueue_bulk": round(statistics.median(self._bulk_rates)),
            **{f"drain_{workers}": median_rate(drains) for workers, drains in self._drains.items()},
            **{
                f"drain_{workers}_rounds": [round(drain.rate) for drain in drains]
                for workers, drains in self._drains.items()
            },
            "rss_mb": highest_rss([*self._drains[1], *self._drains[2]]),
            "machine_us_per_job": median_cpu(self._drains[1]),
            "enqueue_one": round(statistics.median(self._rates)),
            "enqueue_one_rounds": [round(rate) for rate in self._rates],
            "enqueue_to_start_ms": {
                share: statistics.median(delays[share] for delays in self._delays)
                for share in self._delays[0]
            },
            "enqueue_to_start_rounds": [delays["p99"] for delays in self._delays],
        }


def percentiles(delays_ms: list[float]) -> dict[str, float]:
    if not delays_ms:
        raise PeerError("no job was timed")
    cuts = statistics.quantiles(delays_ms, n=100, method="inclusive")
    return {name: round(cuts[at - 1], 2) for name, at in (("p50", 50), ("p95", 95), ("p99", 99))}
