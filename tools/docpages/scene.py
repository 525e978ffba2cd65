"""Sample jobs in all statuses, for the terminal picture in the README."""

from __future__ import annotations

import asyncio

import posthouse

app = posthouse.App()


@app.job(queue="mail")
async def welcome(customer: int) -> str:
    """Send a welcome mail to a customer."""
    return f"welcome mail sent to customer {customer}"


@app.job(queue="billing", retry=posthouse.Retry("1m", "5m", "15m"))
async def charge(order: int) -> None:
    """Charge a card; fails because the bank is unavailable."""
    raise ConnectionError(f"bank unavailable for order {order}")


@app.job(queue="billing", max_attempts=1)
async def refund(order: int) -> None:
    """Refund an order; fails permanently."""
    raise posthouse.Fail(f"order {order} was never paid")


@app.job(queue="media")
async def transcode(job: posthouse.Job, video: str) -> None:
    """Transcode a video; reports progress and keeps running."""
    await job.progress(62, step="encode 720p", message=video)
    await asyncio.sleep(600)


@app.job(queue="media")
async def publish(video: str) -> None:
    """Publish a video; waits for its transcoding."""


async def fill() -> None:
    """Enqueue the jobs of the picture."""
    for customer in (7, 8, 9):
        await welcome.enqueue(customer=customer)
    await welcome.using(delay="6h").enqueue(customer=10)
    await charge.enqueue(order=1041)
    await refund.enqueue(order=1027)
    video = await transcode.enqueue(video="harbour.mp4")
    await publish.using(depends_on=[video.id]).enqueue(video="harbour.mp4")
    await app.close()
