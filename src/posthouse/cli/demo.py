# ruff: noqa: S311 - random numbers vary the demo; nothing depends on them being secret
"""The built-in demo jobs of `posthouse up`, which give a new installation data to show."""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
from pathlib import Path
from typing import Any

import posthouse
from posthouse.commands import CommandRunner, CommandSpec
from posthouse.core.outcome import Policy
from posthouse.core.retry import DEFAULT_RETRY
from posthouse.storage.actions import DEMO_KIND
from posthouse.worker.handlers import HandlerArguments, JobDefinition
from posthouse.worker.runners.commands import ProgressReports

app = posthouse.App()

STAGES = ("sorting", "stamping", "loading", "riding", "delivering")
LEGS = ("north", "coast", "mountain")
BRIDGES = ("stone", "stone", "stone", "wooden", "wooden", "old", "ford")
FLAKY_SHARE = 0.15


class OnPurpose(RuntimeError):
    """A failure that the demo makes deliberately."""


@app.job("demo.greet")
async def greet(name: str = "traveller") -> str:
    """Return a greeting at once."""
    return f"Hello, {name}!"


@app.job("demo.ride", timeout="1m")
async def ride(job: posthouse.Job, letters: int = 20, seconds: float = 5.0) -> dict[str, int]:
    """Run for a few seconds and report progress."""
    for done, stage in enumerate(STAGES, start=1):
        await asyncio.sleep(seconds / len(STAGES))
        await job.progress(100 * done / len(STAGES), step=stage)
    job.log.info("delivered %d letters", letters)
    return {"delivered": letters}


@app.job("demo.flaky", retry=posthouse.Retry("2s", "2s"))
async def flaky(job: posthouse.Job) -> str:
    """Fail on the first attempt, on purpose, and succeed on the second."""
    if job.attempt == 1:
        raise OnPurpose("demo.flaky fails on its first attempt on purpose; the retry in 2 s will succeed")
    return f"succeeded on attempt {job.attempt}"


@app.job("demo.dispatch")
async def dispatch(job: posthouse.Job, letter: str) -> str:
    """Start a chain of three jobs, each enqueued by the completion of the one before."""
    job.enqueue(relay, letter=letter, station=2, options={"delay": "2s"})
    return f"{letter} left station 1"


@app.job("demo.relay")
async def relay(job: posthouse.Job, letter: str, station: int) -> str:
    """Carry on the chain until station 3."""
    if station < 3:  # noqa: PLR2004 - the chain has three stations
        job.enqueue(relay, letter=letter, station=station + 1, options={"delay": "2s"})
        return f"{letter} left station {station}"
    return f"{letter} arrived"


# Some jobs every minute, so that the charts of the console have data.


@app.job("demo.coach")
async def coach(job: posthouse.Job) -> str:
    """Enqueue a few parcels and a toll; runs every minute."""
    parcels = random.randint(2, 6)
    for number in range(parcels):
        weight = random.randint(1, 9)
        job.enqueue(parcel, weight=weight, options={"subject": f"parcel {number + 1}", "delay": number * 3})
    job.enqueue(toll, bridge=random.choice(BRIDGES), options={"delay": random.randint(1, 20)})
    return f"left with {parcels} parcels"


@app.job("demo.parcel", queue="demo", limits=[posthouse.Limit(running=3, name="demo-seats")])
async def parcel(job: posthouse.Job, weight: int) -> dict[str, int]:
    """Report progress in three parts; a heavier parcel takes longer. At most three run at a time."""
    for number, leg in enumerate(LEGS):
        part = job.part(leg)
        await part.start()
        job.log.info("on the %s road with %d kg", leg, weight)
        for percent in (25, 50, 75, 100):
            await asyncio.sleep(weight / 12)
            await part.progress(percent)
        await part.complete()
        await job.progress(100 * (number + 1) / len(LEGS), step=f"the {leg} road")
    return {"weight": weight}


@app.job("demo.toll", queue="demo", retry=posthouse.Retry("5s", "20s"))
async def toll(bridge: str) -> str:
    """Fail now and then on purpose, and always at the ford, to show retries and failure groups."""
    if bridge == "ford":
        raise OnPurpose("demo.toll always fails at the ford, on purpose, to show a failure group")
    if random.random() < FLAKY_SHARE:
        raise OnPurpose(f"demo.toll failed at the {bridge} bridge on purpose; it will be retried")
    return f"paid at the {bridge} bridge"


coach.on_schedule("* * * * *", label="Demo traffic, every minute", missed="skip")


async def run_demo(job: posthouse.Job, name: str, size: int | None = None) -> Any:
    """Run the demo of an application, as `posthouse demo` does, with the workers of this installation."""
    amount = [] if size is None else ["--size", str(size)]
    spec = CommandSpec(
        argv=[sys.executable, "-m", "posthouse", "demo", "--as-job", "--workers", "0", *amount, name],
        cwd=str(Path.cwd()),
        env={key: value for key, value in os.environ.items() if re.fullmatch(r"[A-Za-z_]\w*", key)},
        inherit_env=(),
        open_files=None,
        exit_codes={"1-255": "fail"},
        progress="lines",
        result="json",
    )
    runner, reports = CommandRunner(), ProgressReports(job)
    try:
        done = await runner.run(spec, {}, on_output=_errors_to(job), on_progress=reports)
    finally:
        await asyncio.to_thread(runner.close)
        await reports.flush()
    return done.result if (ending := done.to_outcome()) is None else ending


def _errors_to(job: posthouse.Job) -> Any:
    """Return a listener that copies stderr to the job's log. Stdout holds the progress and the result."""
    return lambda stream, text: job.emit_output(stream, text) if stream == "stderr" else None


# Not by @app.job(), because the kind is reserved: only callers that may run demos can enqueue it.
app.definitions[DEMO_KIND] = JobDefinition(
    kind=DEMO_KIND,
    handler=run_demo,
    queue="demo",
    priority=50,
    max_attempts=1,
    timeout=1800,
    policy=Policy(DEFAULT_RETRY, ()),
    batch=None,
    arguments=HandlerArguments(DEMO_KIND, run_demo, batch=False),
    is_async=True,
    remote=False,
)


async def enqueue_some() -> int:
    """Enqueue the jobs of the first start; return how many."""
    for name in ("Ada", "Grace", "Edsger"):
        await greet.enqueue(name=name)
    await ride.enqueue(letters=42)
    await flaky.enqueue()
    await dispatch.enqueue(letter="letter to Vienna")
    await greet.using(delay="30s").enqueue(name="Barbara, 30 seconds later")
    return 7
