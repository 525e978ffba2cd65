"""How quick the console is in a browser: ``python -m bench.console``.

With 1,000,000 ended jobs: for each page, the slowest request to the API that it waits for, and the last one.
Then the list of jobs while 200 jobs a second come and go: tasks that kept the page busy for more than 50 ms,
and the gaps between frames. Needs Chromium, and the development packages. Prints one JSON object; times in
milliseconds, the better of two visits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import socket
from typing import Any

import psycopg
from playwright.async_api import Page, async_playwright

import posthouse
from bench.listing import fill
from posthouse import testing
from posthouse.cli.run_server import ServerProcess
from posthouse.maintenance import Maintenance
from posthouse.settings import Settings
from posthouse.storage.database import close_embedded

PAGES = (
    "", "jobs", "jobs?q=status:failed", "jobs?q=kind:rare", "jobs/{job}", "failures", "workers", "queues",
    "triggers", "definitions", "operator/tenants", "operator/audit", "operator/doctor", "operator/keys",
)  # fmt: skip
ROWS, BACKLOG = 1_000_000, 20_000
RATE, SECONDS = 200, 10
SECRET = "for-this-run-only-and-32-characters"

REQUESTS = """() => {
  const asked = performance.getEntriesByType("resource")
    .filter(({name}) => name.includes("/api/v1/") && !name.includes("/stream"))
    .map(({name, requestStart, responseStart}) => ({name, took: responseStart - requestStart}))
    .sort((one, other) => other.took - one.took)
  return {requests: asked.length, slowest: asked[0].took, where: asked[0].name}
}"""
WATCH = """() => {
  window.long = []
  window.gaps = []
  new PerformanceObserver((list) => window.long.push(...list.getEntries().map(({duration}) => duration)))
    .observe({type: "longtask"})
  let last = performance.now()
  const frame = (now) => {
    window.gaps.push(now - last)
    last = now
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
}"""
SEEN = """() => {
  const gaps = window.gaps.sort((one, other) => one - other)
  const share = (part) => gaps[Math.floor((gaps.length - 1) * part)]
  return {long_tasks: window.long.length, longest_task: Math.max(0, ...window.long),
          frame_p50: share(0.5), frame_p99: share(0.99)}
}"""


async def visited(page: Page, address: str) -> dict[str, Any]:
    await page.goto(address)
    await page.wait_for_selector("main#content")
    await page.wait_for_timeout(700)
    await page.wait_for_selector(".skeleton", state="detached")
    found: dict[str, Any] = await page.evaluate(REQUESTS)
    found["where"] = found["where"].partition("/api/v1")[2].partition("?")[0]
    return {name: round(value, 1) if isinstance(value, float) else value for name, value in found.items()}


async def pages(page: Page, url: str, job: str) -> dict[str, Any]:
    found = {}
    for path in PAGES:
        visits = [await visited(page, f"{url}/console/{path.format(job=job)}") for _ in range(2)]
        found[path or "overview"] = min(visits, key=lambda each: each["slowest"])
    return found


async def busy(page: Page, url: str, app: posthouse.App) -> dict[str, Any]:
    await page.goto(f"{url}/console/jobs")
    await page.wait_for_selector("tbody tr")
    await page.evaluate(WATCH)
    async with posthouse.Client(app.settings.database_url) as client:
        for _ in range(SECONDS * 10):
            requests = [posthouse.Request(kind="ride", payload={}) for _ in range(RATE // 20)]
            await asyncio.gather(client.enqueue_many(requests), asyncio.sleep(0.1))
    return {name: round(value, 1) for name, value in (await page.evaluate(SEEN)).items()}


def application(settings: Settings) -> posthouse.App:
    app = posthouse.App(settings=settings)

    @app.job("ride")
    async def ride() -> None:
        """Each job changes about twice: it starts and it ends."""
        await asyncio.sleep(0.5)

    return app


async def measured(url: str) -> dict[str, Any]:
    settings = Settings(database_url=url, admin_secret=SECRET, concurrency=200)
    app = application(settings)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        serving, keeper = ServerProcess(settings), Maintenance(url, settings)
        await serving.start(listening)
        await keeper.start()
        async with app:
            worker = await app.worker()
            await worker.start()
            found = await _seen(address, app)
            await worker.stop()
        await keeper.stop()
        await serving.stop()
    return found


async def _seen(address: str, app: posthouse.App) -> dict[str, Any]:
    async with await psycopg.AsyncConnection.connect(app.settings.database_url) as db:
        cursor = await db.execute("select id from posthouse.history where status = 'failed' limit 1")
        (job,) = await cursor.fetchone() or (None,)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox"],
        )
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await page.request.post(f"{address}/api/v1/session", data={"credential": SECRET})
        found = {"pages": await pages(page, address, str(job)), "busy": await busy(page, address, app)}
        await browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    wanted = parser.parse_args()
    try:
        with testing.database() as url:
            with psycopg.connect(url, autocommit=True) as db:
                fill(db, wanted.rows, BACKLOG)
            print(json.dumps({"rows": wanted.rows, **asyncio.run(measured(url))}, indent=2))
    finally:
        close_embedded()


if __name__ == "__main__":
    main()
