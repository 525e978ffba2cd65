#!/usr/bin/env python3
"""Take the pictures of the console: ``python tools/console_pictures.py [MINUTES]``.

Runs a shop under varying load for MINUTES (default 15, so that the charts have data), then writes
docs/pictures/console-overview.png, console-overview-dark.png and console-job.png. Needs Playwright, Chromium
and a Postgres as in the settings, or the embedded one. The font is the sans-serif font of the machine;
``apt-get install fonts-inter`` for the font of the pictures in the repository.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, async_playwright

import posthouse
from posthouse import testing
from posthouse.cli.run_server import ServerProcess
from posthouse.maintenance import Maintenance
from posthouse.settings import Settings

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WAVE_SECONDS = 420
STEPS = ("demux", "video", "audio", "mux")

app = posthouse.App()


@app.job("mail.welcome", queue="mail")
async def welcome(customer: int) -> str:
    """Send a welcome mail."""
    await asyncio.sleep(0.05)
    return f"mail sent to customer {customer}"


@app.job("billing.invoice", queue="billing", max_attempts=2, retry=posthouse.Retry("2s"))
async def invoice(customer: int) -> str:
    """Create an invoice. Some fail, as in a real shop."""
    await asyncio.sleep(random.uniform(0.2, 2.0))  # noqa: S311 - not for security
    if customer % 97 == 0:
        raise ValueError(f"customer {customer} has no tax number")
    if customer % 61 == 0:
        raise TimeoutError("the bank did not answer within 30 s")
    return f"invoice {customer}"


@app.job("media.transcode", queue="transcode")
async def transcode(job: posthouse.Job, video: str, seconds: float = 12.0) -> None:
    """Transcode a video in four parts."""
    for done, step in enumerate(STEPS):
        await job.progress(100 * done / len(STEPS), step=step, message=video)
        async with job.part(step) as part:
            for tick in range(5):
                job.log.info("%s 1080p: frame %d, speed 2.31x, bitrate 4810 kbit/s", step, 8620 * tick)
                await part.progress(20 * tick)
                await asyncio.sleep(seconds / len(STEPS) / 5)


async def main(minutes: float) -> None:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    with testing.database() as url:
        async with shop(Settings(database_url=url)) as (serving, address), async_playwright() as playwright:
            await load(minutes * 60)
            browser = await playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
            for name in ("console-overview.png", "console-overview-dark.png"):
                await shoot(browser, serving.login_link("admin", address), "?range=15m", name)
            job = await transcode.using(subject="keynote.mp4").enqueue(video="keynote.mp4", seconds=40.0)
            await shoot(browser, serving.login_link("admin", address), f"jobs/{job.id}", "console-job.png")
            await browser.close()


@asynccontextmanager
async def shop(settings: Settings) -> AsyncIterator[tuple[ServerProcess, str]]:
    """A server, a keeper and three workers."""
    app.settings = settings
    async with app:
        keeper = Maintenance(settings.database_url, settings)
        await keeper.start()
        fleet = (("mail-fra-1", 50, ["mail"]), ("billing-fra-1", 50, ["billing"]), ("encoder-fra-1", 24, []))
        workers = [
            await app.worker(queues=queues, worker_name=name, concurrency=slots)
            for name, slots, queues in fleet
        ]
        for worker in workers:
            await worker.start()
        listening = socket.create_server(("127.0.0.1", 0))
        serving = ServerProcess(settings)
        await serving.start(listening)
        try:
            yield serving, f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            await serving.stop()
            for worker in workers:
                await worker.stop()
            await keeper.stop()


async def load(seconds: float) -> None:
    """Enqueue 2 to 6 jobs a second, in waves."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    for number in itertools.count(1):
        elapsed = loop.time() - start
        if elapsed > seconds:
            return
        job = welcome if number % 3 else invoice
        await job.using(subject=f"customer/{number}").enqueue(customer=number)
        if number % 40 == 0:
            await transcode.using(subject=f"clip-{number}.mp4").enqueue(video=f"clip-{number}.mp4")
        if number % 400 == 0:
            await welcome.using(delay="6h").enqueue(customer=number)
        await asyncio.sleep(1 / (4 + 2 * math.sin(2 * math.pi * elapsed / WAVE_SECONDS)))


async def shoot(browser: Browser, login: str, path: str, name: str) -> None:
    """Log in with the address of `login` and write a picture of the page at `path`."""
    theme = "light" if name == "console-overview.png" else "dark"
    size = {"width": 1440, "height": 1000 if path.startswith("jobs/") else 880}
    context = await browser.new_context(viewport=size, color_scheme=theme)
    page = await context.new_page()
    await page.goto(login)
    await page.get_by_role("heading", name="Overview").wait_for()
    await page.goto(login.partition("#")[0] + path)
    await page.locator(".live[data-state=live]").wait_for()
    await page.wait_for_function("!document.querySelector('.skeleton')")
    if path.startswith("jobs/"):
        await (
            page.get_by_role("list", name="Parts")
            .get_by_text(STEPS[-1], exact=True)
            .wait_for(timeout=120_000)
        )
    await page.screenshot(path=PICTURES / name)
    sys.stdout.write(f"{PICTURES / name}\n")
    await context.close()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 15.0))
