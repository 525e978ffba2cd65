"""Deliver alerts as jobs of Posthouse's own queue, which a worker in the keeper's process runs."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from posthouse.alerts.http_post import AddressNotAllowed, DestinationMoved
from posthouse.alerts.webhook import AlertMessage, WebhookSender
from posthouse.core.outcome import Fail, Policy
from posthouse.keeper.alerter import DELIVERY_RETRY
from posthouse.settings import Settings
from posthouse.storage.alerts import Delivery, get_delivery, has_system_work
from posthouse.storage.connections import ReconnectingConnection
from posthouse.worker.handlers import HandlerArguments, JobDefinition
from posthouse.worker.job import Job
from posthouse.worker.postgres import PostgresBackend
from posthouse.worker.worker import Worker

KIND = "posthouse.webhook"
PRIORITY = 50


def webhook_definition(
    sender: WebhookSender, connection: ReconnectingConnection, queue: str, timeout: float
) -> JobDefinition:
    async def deliver(job: Job, alert: str, destination: str) -> dict[str, Any]:
        """Send an alert to a destination of the settings."""
        delivery = await connection.run(lambda c: get_delivery(c, job.id))
        if delivery is None or (str(delivery.id), delivery.destination) != (alert, destination):
            raise Fail("the alert to deliver no longer exists")  # not enqueued by the alerter
        return await _send(sender, delivery)

    return JobDefinition(
        kind=KIND,
        handler=deliver,
        queue=queue,
        priority=PRIORITY,
        max_attempts=DELIVERY_RETRY.attempts,
        timeout=2 * timeout + 10,
        policy=Policy(DELIVERY_RETRY, (AddressNotAllowed, DestinationMoved)),
        batch=None,
        arguments=HandlerArguments(KIND, deliver, batch=False),
        is_async=True,
    )


async def _send(sender: WebhookSender, delivery: Delivery) -> dict[str, Any]:
    response = await sender.send(message_of(delivery), sender.destinations[delivery.destination])
    return {"status": response.status, "response": response.body[:200], "seconds": round(response.seconds, 3)}


def message_of(delivery: Delivery) -> AlertMessage:
    return AlertMessage(
        id=str(delivery.id),
        type=delivery.type,
        severity=delivery.severity,
        at=delivery.at,
        tenant_id=delivery.tenant_id,
        subject=delivery.subject,
        message=delivery.message,
        suppressed_count=delivery.suppressed_count,
        details=delivery.details,
    )


QUEUE = "posthouse.system"
POLL_SECONDS = 2.0
IDLE_SECONDS = 120.0
DELIVER_SECONDS = 30.0
CONCURRENCY = 4
STOP_DRAIN_SECONDS = 0.5


class DeliveryWorker:
    """The step that delivers alerts.

    It polls for jobs that this process can run, and starts a worker only if there are any. Without alert
    destinations it does not poll.
    """

    name = "alert_delivery"

    def __init__(
        self,
        url: str,
        settings: Settings,
        connection: ReconnectingConnection,
        *,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._url = url
        self._connection = connection
        self._sender = WebhookSender(settings)
        self._capabilities = [item.word for item in self._sender.destinations.values()]
        self._settings = _worker_settings(settings, self._capabilities)
        self._idle_seconds = idle_seconds
        self._worker: Worker | None = None
        self._stop_at = 0.0

    @property
    def is_running(self) -> bool:
        return self._worker is not None

    async def run_once(self) -> dict[str, int]:
        if not self._capabilities:
            return {"started": 0}
        if self._worker is not None and (self._worker.failed.is_set() or self._worker.drained.is_set()):
            await self._stop_worker()
        waiting = await self._has_pending_jobs()
        now = time.monotonic()
        if waiting:
            self._stop_at = now + self._idle_seconds
        if waiting and self._worker is None:
            await self._start_worker()
            return {"started": 1}
        if self._worker is not None and now >= self._stop_at:
            await self._stop_worker()
        return {"started": 0}

    async def deliver(self, seconds: float = DELIVER_SECONDS) -> None:
        """Run the pending jobs, for at most this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self._has_pending_jobs():
                    await self.run_once()
                    await asyncio.sleep(0.05)

    async def _has_pending_jobs(self) -> bool:
        return bool(self._capabilities) and await self._connection.run(
            lambda c: has_system_work(c, QUEUE, self._capabilities)
        )

    async def _start_worker(self) -> None:
        worker = Worker(
            self._definitions(),
            lambda worker_id: PostgresBackend(self._url, worker_id, self._settings),
            self._settings,
            queues=[QUEUE],
        )
        try:
            await worker.start()
        except BaseException:
            await worker.stop(0)
            raise
        self._worker = worker

    def _definitions(self) -> Mapping[str, JobDefinition]:
        webhook = webhook_definition(
            self._sender, self._connection, QUEUE, self._settings.alert_timeout_seconds
        )
        return {webhook.kind: webhook}

    async def _stop_worker(self, drain: float | None = None) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop(drain)

    async def stop(self) -> None:
        """Stop soon. A webhook whose receiver does not respond is released and sent again later."""
        await self._stop_worker(STOP_DRAIN_SECONDS)

    def pause(self) -> float:
        return POLL_SECONDS


def _worker_settings(settings: Settings, capabilities: list[str]) -> Settings:
    return dataclasses.replace(
        settings,
        concurrency=CONCURRENCY,
        commands=False,
        worker_name=f"{socket.gethostname()}:{os.getpid()} alerts",
        worker_metadata="",
        capabilities=",".join(capabilities),
        poll_seconds=max(5.0, settings.poll_seconds),
        drain_seconds=settings.alert_timeout_seconds,
    )
