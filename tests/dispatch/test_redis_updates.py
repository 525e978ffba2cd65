"""Live updates on Redis Pub/Sub."""

import json
from contextlib import asynccontextmanager
from dataclasses import replace

import posthouse
from support.server import RunningServer
from support.waiting import eventually
from support.workers import running_worker


@asynccontextmanager
async def served(settings, *apps):
    async with RunningServer(settings, {f"app{number}": app for number, app in enumerate(apps)}) as server:
        yield server.process._app.state.streams


class RecordedMessages:
    """The messages of a subscriber."""

    def __init__(self, pubsub):
        self._pubsub = pubsub
        self._messages = []

    def of(self, channel, **fields):
        while message := self._pubsub.get_message():
            if message["type"] == "pmessage":
                self._messages.append((message["channel"], json.loads(message["data"])))
        return [data for name, data in self._messages if name == channel and fields.items() <= data.items()]


async def test_progress_and_ends_of_jobs_are_published(settings, redis_server):
    settings = replace(settings, dispatch="hybrid", redis_url=redis_server.url)
    with redis_server.client() as client, client.pubsub() as pubsub:
        messages = RecordedMessages(pubsub)
        pubsub.psubscribe("progress:*", "complete:*", "worker_status", "orders_*")

        def channel(change, job):
            """It fails for jobs without a subject, which must not stop the others."""
            return f"orders_{change}:{job['subject'].lower()}"

        async with posthouse.App(settings=settings, channel=channel) as app, served(settings, app) as streams:

            @app.job()
            async def work(job: posthouse.Job) -> None:
                await job.progress(50, step="half")
                await eventually(
                    lambda: messages.of(f"progress:{job.id}", progress_percent=50), what="progress"
                )

            async with running_worker(app):
                await eventually(lambda: len(streams), what="a publisher at work")
                await streams._watcher.wait_for_poll()
                await (await work.enqueue()).wait(80)
                handle = await work.using(subject="12").enqueue()
                await handle.wait(80)
                await eventually(lambda: messages.of("orders_complete:12"), what="the end of the order")
                assert messages.of("orders_progress:12", progress_percent=50)
                ended = f"complete:{handle.id}"
                await eventually(lambda: messages.of(ended, status="succeeded"), what="the end")
                async with running_worker(app, keeper=False) as second:
                    await eventually(lambda: messages.of("worker_status", id=str(second.id)), what="a worker")


async def test_nothing_is_read_for_updates_without_subscribers(settings, redis_server):
    settings = replace(settings, dispatch="hybrid", redis_url=redis_server.url)
    with redis_server.client() as client:
        async with served(settings) as streams:
            await eventually(lambda: client.exists("{posthouse}:publisher"), what="a publisher")
            assert len(streams) == 0
