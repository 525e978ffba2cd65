"""Webhooks: an alert as JSON, Slack or Discord message, signed and posted."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from posthouse.alerts.http_post import PostOptions, Response, WebhookError, post
from posthouse.core.alerts import Destination, Shape, destinations
from posthouse.core.redaction import PLAIN, Secrets, mask_text
from posthouse.settings import Settings

HEADER = "Posthouse-Signature"


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return ``t=1700000000,v1=…``: the HMAC-SHA256, in hex, of the timestamp, a full stop and the body."""
    signed = f"{timestamp}.".encode() + body
    return f"t={timestamp},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


VERSION = 1
_COLOURS = {"info": 0x2E86DE, "warning": 0xF39C12, "error": 0xC0392B}
_MAX_FIELDS = 10
_FIELD_LENGTH = 300
_TEXT_LENGTH = 1_800  # Discord takes 2,000 characters


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """An alert as it is sent."""

    id: str
    type: str
    severity: str
    at: datetime
    tenant_id: str | None
    subject: str
    message: str
    suppressed_count: int
    details: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The message, with the number of suppressed alerts."""
        text = mask_text(self.message)[:_TEXT_LENGTH]
        return f"{text} (and {self.suppressed_count:,} more suppressed)" if self.suppressed_count else text

    @property
    def title(self) -> str:
        return f"{self.severity}: {self.type.replace('_', ' ')}"

    @property
    def fields(self) -> dict[str, str]:
        """The details as short texts, for chat messages."""
        named = {"tenant": self.tenant_id, **PLAIN.value(dict(self.details))}
        shown = {name: _short(value) for name, value in named.items() if value not in (None, "")}
        return dict(list(shown.items())[:_MAX_FIELDS])


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _FIELD_LENGTH else text[: _FIELD_LENGTH - 1] + "…"


def render_body(message: AlertMessage, shape: Shape) -> dict[str, Any]:
    return _SHAPES[shape](message)


def _json(message: AlertMessage) -> dict[str, Any]:
    return {
        "version": VERSION,
        "id": message.id,
        "type": message.type,
        "severity": message.severity,
        "at": message.at.isoformat(),
        "tenant_id": message.tenant_id,
        "subject": message.subject,
        "message": mask_text(message.message),
        "suppressed_count": message.suppressed_count,
        "details": PLAIN.value(dict(message.details)),
    }


def _slack(message: AlertMessage) -> dict[str, Any]:
    fields = [
        {"title": _escape_slack(name), "value": _escape_slack(value), "short": len(value) <= 40}  # noqa: PLR2004 - half a line
        for name, value in message.fields.items()
    ]
    return {
        "text": f"*{_escape_slack(message.title)}*\n{_escape_slack(message.text)}",
        "attachments": [
            {
                "color": f"#{_COLOURS[message.severity]:06x}",
                "fallback": _escape_slack(message.title),
                "fields": fields,
                "ts": int(message.at.timestamp()),
            }
        ],
    }


def _escape_slack(text: str) -> str:
    """Escape text from jobs, which must not mention a channel or create links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _discord(message: AlertMessage) -> dict[str, Any]:
    fields = [{"name": name, "value": value, "inline": True} for name, value in message.fields.items()]
    return {
        "embeds": [
            {
                "title": message.title,
                "description": message.text,
                "color": _COLOURS[message.severity],
                "timestamp": message.at.isoformat(),
                "fields": fields,
            }
        ],
        "allowed_mentions": {"parse": []},
    }


_SHAPES: dict[Shape, Callable[[AlertMessage], dict[str, Any]]] = {
    Shape.JSON: _json,
    Shape.SLACK: _slack,
    Shape.DISCORD: _discord,
}


class WebhookSender:
    """The sender of alerts to the destinations of the settings."""

    def __init__(self, settings: Settings, options: PostOptions | None = None) -> None:
        self.destinations: Mapping[str, Destination] = {
            item.name: item for item in destinations(settings.alert_webhook_url)
        }
        self._secret = settings.alert_webhook_secret
        self._options = options or PostOptions(
            timeout=settings.alert_timeout_seconds, private=settings.alert_private_addresses
        )

    async def send(self, message: AlertMessage, destination: Destination) -> Response:
        """Send a message and return the response.

        Secrets are masked in the response and in errors, because a destination may echo the request.
        """
        body = json.dumps(render_body(message, destination.shape), ensure_ascii=False).encode(
            errors="replace"
        )
        secrets = self._secrets(destination)
        try:
            response = await post(destination.url, body, self._headers(message, body), self._options)
        except WebhookError as error:
            raise type(error)(mask_text(secrets.mask(str(error), cut=True))) from None
        return replace(response, body=mask_text(secrets.mask(response.body, cut=True)))

    def _headers(self, message: AlertMessage, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Posthouse",
            "Posthouse-Alert": message.id,  # the same in every repetition
        }
        if self._secret:
            headers[HEADER] = signature(self._secret, int(time.time()), body)
        return headers

    def _secrets(self, destination: Destination) -> Secrets:
        url = destination.url
        parts = (*url.path.split("/"), *url.query.split("&"))
        parts = tuple(part for part in parts if not (part.isalpha() and part.islower()))  # these are words
        return Secrets([url.geturl(), f"{url.path}?{url.query}", url.path, *parts, self._secret])
