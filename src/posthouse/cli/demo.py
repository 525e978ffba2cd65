# ruff: noqa: S311 - chance is all that is asked of it here
"""The built-in demo: a few letters to carry, so that there is something to look at."""

from __future__ import annotations

import asyncio
import random

import posthouse

app = posthouse.App()

STAGES = ("sorting", "stamping", "loading", "riding", "delivering")
LEGS = ("north", "coast", "mountain")
BRIDGES = ("stone", "stone", "stone", "wooden", "wooden", "old", "ford")
SNAGS = 0.15


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


# And a little traffic, every minute, as long as somebody looks.


@app.job("coach.depart")
async def depart(job: posthouse.Job) -> str:
    """Leaves with a few parcels, and pays the toll on the way."""
    parcels = random.randint(2, 6)
    for number in range(parcels):
        weight = random.randint(1, 9)
        job.enqueue(parcel, weight=weight, options={"subject": f"parcel {number + 1}", "delay": number * 3})
    job.enqueue(toll, bridge=random.choice(BRIDGES), options={"delay": random.randint(1, 20)})
    return f"left with {parcels} parcels"


@app.job("coach.parcel", queue="coach", limits=[posthouse.Limit(running=3, name="coach-seats")])
async def parcel(job: posthouse.Job, weight: int) -> dict[str, int]:
    """Carries a parcel: the heavier, the slower."""
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


@app.job("coach.toll", queue="coach", retry=posthouse.Retry("5s", "20s"))
async def toll(bridge: str) -> str:
    """Pays at a bridge. The one at the ford wants coins that nobody has."""
    if bridge == "ford" or random.random() < SNAGS:
        raise ValueError(f"the keeper of the {bridge} bridge wants {random.randint(2, 9)} coins in silver")
    return f"paid at the {bridge} bridge"


depart.on_schedule("* * * * *", label="The mail coach leaves every minute", missed="skip")


async def enqueue_some() -> int:
    """What the first start finds to do; returns how many jobs."""
    for name in ("Ada", "Grace", "Edsger"):
        await greet.enqueue(name=name)
    await ride.enqueue(letters=42)
    await ford.enqueue()
    await dispatch.enqueue(letter="letter to Vienna")
    await greet.using(delay="30s").enqueue(name="the one who waited")
    return 7
