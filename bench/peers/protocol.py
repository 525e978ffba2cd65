"""What the runner says to a peer's script, for the scripts in Python.

This module is imported in the peers' own environment: standard library and uvloop only.

    setup              make the schema; print {"version", "settings"}
    enqueue_one N      N enqueues, one commit each, one after the other; print {"jobs", "seconds"}
    enqueue_bulk N     N jobs the fastest way the library offers; print {"jobs", "seconds"}
    pace RATE SECONDS  enqueue evenly, each payload with the time just before; print {"jobs"}
    work               run no-op jobs: print {"ready": true}, wait for the line `go`, then print
                       {"ran", "first", "delays_ms"} as jobs start; end when stdin closes
    work timed         the same, and report how late each job started

With PEER_GUARANTEES=on in the environment a peer turns on what it has of ordered keys, limits, fair share and
history, as its entry in catalogue.py says; no limit is ever reached.

Every time is the monotonic clock, which all processes of one machine share.
"""

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import uvloop

PAD = "x" * 70  # with the time and the quotes: about 100 bytes of payload
REPORT_EVERY_S = 0.05
GUARANTEES = os.environ.get("PEER_GUARANTEES") == "on"
JOBS_PER_KEY = 10
LIMIT = 5_000  # running jobs, never reached
RATE_LIMIT = 1_000_000  # jobs a second, never reached
UNCOUNTED_ENQUEUES = 50  # connections, prepared statements and caches warm up on these

Payload = dict[str, Any]
Item = TypeVar("Item")


class Tally:
    """What this worker has run so far."""

    def __init__(self, *, timed: bool) -> None:
        self.timed = timed
        self.ran = 0
        self.first: float | None = None
        self._delays_ms: list[float] = []

    def started(self) -> None:
        if self.first is None:
            self.first = time.monotonic()
        self.ran += 1

    def started_late(self, sent: float) -> None:
        self._delays_ms.append((time.monotonic() - sent) * 1000)
        self.started()

    def report(self) -> dict[str, Any]:
        delays, self._delays_ms = self._delays_ms, []
        return {"ran": self.ran, "first": self.first, "delays_ms": delays}


class Peer(Protocol):
    package: str
    settings: dict[str, Any]

    async def open(self, url: str) -> None: ...

    async def setup(self) -> None: ...

    async def enqueue_one(self, payload: Payload) -> None: ...

    async def enqueue_bulk(self, payloads: list[Payload]) -> None: ...

    async def work(self, tally: Tally) -> None:
        """Start running jobs; return or not, the jobs go on until the process ends."""


def payload() -> Payload:
    return {"sent": time.monotonic(), "pad": PAD}


def keys(jobs: int) -> list[str]:
    """Return an order key for each job of a bulk: all keys have the same number of jobs, by turns."""
    count = max(1, jobs // JOBS_PER_KEY)
    return [f"key-{number % count}" for number in range(jobs)]


def chunks(items: list[Item], size: int) -> Iterator[list[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def main(peer: Peer) -> None:
    command, *arguments = sys.argv[1:]
    commands: dict[str, Callable[..., Awaitable[None]]] = {
        "setup": _setup,
        "enqueue_one": _enqueue_one,
        "enqueue_bulk": _enqueue_bulk,
        "pace": _pace,
        "work": _work,
    }
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_opened(peer, commands[command], arguments))
    # A library's threads or pools must not keep a finished command alive.
    sys.stdout.flush()
    os._exit(0)


async def _opened(peer: Peer, command: Callable[..., Awaitable[None]], arguments: list[str]) -> None:
    await peer.open(os.environ["PEER_DATABASE_URL"])
    await command(peer, *arguments)


async def _setup(peer: Peer) -> None:
    await peer.setup()
    say({"version": version(peer.package), "settings": peer.settings})


async def _enqueue_one(peer: Peer, jobs: str) -> None:
    for _ in range(UNCOUNTED_ENQUEUES):
        await peer.enqueue_one(payload())
    began = time.monotonic()
    for _ in range(int(jobs)):
        await peer.enqueue_one(payload())
    say({"jobs": int(jobs), "seconds": time.monotonic() - began})


async def _enqueue_bulk(peer: Peer, jobs: str) -> None:
    payloads = [payload() for _ in range(int(jobs))]
    began = time.monotonic()
    await peer.enqueue_bulk(payloads)
    say({"jobs": len(payloads), "seconds": time.monotonic() - began})


async def _pace(peer: Peer, rate: str, seconds: str) -> None:
    interval = 1 / float(rate)
    jobs = round(float(rate) * float(seconds))
    began = time.monotonic()
    for number in range(jobs):
        # A little jitter, or the pace could keep step with a peer's polling.
        due = began + (number + random.uniform(0, 0.5)) * interval
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await peer.enqueue_one(payload())
    say({"jobs": jobs})


async def _work(peer: Peer, *mode: str) -> None:
    go = _go_signal()
    say({"ready": True})
    await go.wait()
    tally = Tally(timed="timed" in mode)
    working = asyncio.ensure_future(peer.work(tally))
    reported = 0
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        if working.done():
            working.result()  # a worker that failed fails the process
        if tally.ran > reported:
            reported = tally.ran
            say(tally.report())


def _go_signal() -> asyncio.Event:
    """An event set by the line `go`; the end of stdin ends the process."""
    loop = asyncio.get_running_loop()
    go = asyncio.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "go":
                loop.call_soon_threadsafe(go.set)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    return go
