"""A shop with something of everything in its queues, for the picture in the README."""

from __future__ import annotations

import asyncio

import posthouse

app = posthouse.App()


@app.job(queue="mail")
async def welcome(customer: int) -> str:
    """Greets a new customer."""
    return f"customer {customer} was greeted"


@app.job(queue="billing", retry=posthouse.Retry("1m", "5m", "15m"))
async def charge(order: int) -> None:
    """Charges a card at a bank that does not answer today."""
    raise ConnectionError(f"no bank for {order}")


@app.job(queue="billing", max_attempts=1)
async def refund(order: int) -> None:
    """Fails for good."""
    raise posthouse.Fail(f"{order} was never paid")


@app.job(queue="media")
async def transcode(job: posthouse.Job, video: str) -> None:
    """Reports progress, and goes on for as long as the picture takes."""
    await job.progress(62, step="encode 720p", message=video)
    await asyncio.sleep(600)


@app.job(queue="media")
async def publish(video: str) -> None:
    """Waits for the video."""


async def fill() -> None:
    """Enqueues what the picture shows."""
    for customer in (7, 8, 9):
        await welcome.enqueue(customer=customer)
    await welcome.using(delay="6h").enqueue(customer=10)
    await charge.enqueue(order=1041)
    await refund.enqueue(order=1027)
    video = await transcode.enqueue(video="harbour.mp4")
    await publish.using(depends_on=[video.id]).enqueue(video="harbour.mp4")
    await app.close()
