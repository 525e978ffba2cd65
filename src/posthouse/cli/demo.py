"""The built-in demo: a few letters to carry, so that there is something to look at."""

from __future__ import annotations

import asyncio

import posthouse

app = posthouse.App()

STAGES = ("sorting", "stamping", "loading", "riding", "delivering")


@app.job("demo.greet")
async def greet(name: str = "traveller") -> str:
    """Says hello, at once."""
    return f"Hello, {name}!"


@app.job("demo.ride", timeout="1m")
async def ride(job: posthouse.Job, letters: int = 20, seconds: float = 5.0) -> dict[str, int]:
    """Carries letters for a few seconds, and reports progress."""
    for done, stage in enumerate(STAGES, start=1):
        await asyncio.sleep(seconds / len(STAGES))
        await job.progress(100 * done / len(STAGES), step=stage)
    job.log.info("delivered %d letters", letters)
    return {"delivered": letters}


@app.job("demo.ford", retry=posthouse.Retry("2s", "2s"))
async def ford(job: posthouse.Job) -> str:
    """Crosses a river in flood: fails once, then succeeds."""
    if job.attempt == 1:
        raise ConnectionError("the river is too high; trying again in 2 s")
    return "crossed"


@app.job("demo.dispatch")
async def dispatch(job: posthouse.Job, letter: str) -> str:
    """Sends a letter: the next station follows in a moment."""
    job.enqueue(relay, letter=letter, station=2, options={"delay": "2s"})
    return f"{letter} left station 1"


@app.job("demo.relay")
async def relay(job: posthouse.Job, letter: str, station: int) -> str:
    """Changes horses at a station, and rides on to the next, three in all."""
    if station < 3:  # noqa: PLR2004 - the road has three stations
        job.enqueue(relay, letter=letter, station=station + 1, options={"delay": "2s"})
        return f"{letter} left station {station}"
    return f"{letter} arrived"


async def enqueue_some() -> int:
    """What the first start finds to do; returns how many jobs."""
    for name in ("Ada", "Grace", "Edsger"):
        await greet.enqueue(name=name)
    await ride.enqueue(letters=42)
    await ford.enqueue()
    await dispatch.enqueue(letter="letter to Vienna")
    await greet.using(delay="30s").enqueue(name="the one who waited")
    return 7
