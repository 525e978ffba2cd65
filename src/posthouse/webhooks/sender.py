"""Sends messages to the configured destinations."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace

from posthouse.core.alerts import Destination, destinations
from posthouse.core.redaction import Secrets, mask_text
from posthouse.settings import Settings
from posthouse.webhooks.errors import WebhookError
from posthouse.webhooks.send import Answer, Rules, post
from posthouse.webhooks.shapes import Message, body_of
from posthouse.webhooks.signature import HEADER, signature


class Sender:
    def __init__(self, settings: Settings, rules: Rules | None = None) -> None:
        self.destinations: Mapping[str, Destination] = {
            item.name: item for item in destinations(settings.alert_webhook_url)
        }
        self._secret = settings.alert_webhook_secret
        self._rules = rules or Rules(
            timeout=settings.alert_timeout_seconds, private=settings.alert_private_addresses
        )

    async def send(self, message: Message, destination: Destination) -> Answer:
        """Send a message and return the response. Secrets are masked in the response and in errors, since a
        destination may echo the request.
        """
        body = json.dumps(body_of(message, destination.shape), ensure_ascii=False).encode(errors="replace")
        secrets = self._secrets(destination)
        try:
            answer = await post(destination.url, body, self._headers(message, body), self._rules)
        except WebhookError as error:
            raise type(error)(mask_text(secrets.mask(str(error), cut=True))) from None
        return replace(answer, body=mask_text(secrets.mask(answer.body, cut=True)))

    def _headers(self, message: Message, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Posthouse",
            "Posthouse-Alert": message.id,  # the same whenever it is sent again
        }
        if self._secret:
            headers[HEADER] = signature(self._secret, int(time.time()), body)
        return headers

    def _secrets(self, destination: Destination) -> Secrets:
        url = destination.url
        parts = (*url.path.split("/"), *url.query.split("&"))
        parts = tuple(part for part in parts if not (part.isalpha() and part.islower()))  # those are words
        return Secrets([url.geturl(), f"{url.path}?{url.query}", url.path, *parts, self._secret])
