"""The job that delivers one alert to one destination. Its payload holds names only, no URL and no text."""

from __future__ import annotations

from typing import Any

from posthouse.core.outcome import Fail, Policy
from posthouse.keeper.alerter import DELIVERY_RETRY
from posthouse.storage.alerts import Delivery, delivery_of
from posthouse.storage.connections import Line
from posthouse.webhooks.errors import AddressRefused, Misdirected
from posthouse.webhooks.sender import Sender
from posthouse.webhooks.shapes import Message
from posthouse.worker.handlers import Arguments, Definition
from posthouse.worker.job import Job

KIND = "posthouse.webhook"
PRIORITY = 50


def webhook_definition(sender: Sender, line: Line, queue: str, timeout: float) -> Definition:
    async def deliver(job: Job, alert: str, destination: str) -> dict[str, Any]:
        """Send an alert to a destination of the settings."""
        delivery = await line.run(lambda c: delivery_of(c, job.id))
        if delivery is None or (str(delivery.id), delivery.destination) != (alert, destination):
            raise Fail("the alert to deliver no longer exists")  # not enqueued by the alerter
        return await _send(sender, delivery)

    return Definition(
        kind=KIND,
        handler=deliver,
        queue=queue,
        priority=PRIORITY,
        max_attempts=DELIVERY_RETRY.attempts,
        timeout=2 * timeout + 10,
        policy=Policy(DELIVERY_RETRY, (AddressRefused, Misdirected)),
        batch=None,
        arguments=Arguments(KIND, deliver, batch=False),
        is_async=True,
    )


async def _send(sender: Sender, delivery: Delivery) -> dict[str, Any]:
    answer = await sender.send(message_of(delivery), sender.destinations[delivery.destination])
    return {"status": answer.status, "answer": answer.body[:200], "seconds": round(answer.seconds, 3)}


def message_of(delivery: Delivery) -> Message:
    return Message(
        id=str(delivery.id),
        type=delivery.type,
        severity=delivery.severity,
        at=delivery.at,
        tenant_id=delivery.tenant_id,
        subject=delivery.subject,
        message=delivery.message,
        held_back=delivery.held_back,
        details=delivery.details,
    )
