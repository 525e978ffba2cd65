"""Types of alerts, and the destinations that the settings name."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from posthouse.errors import ConfigurationError


class AlertType(StrEnum):
    STALE_JOB_RECOVERED = "stale_job_recovered"
    JOB_MAX_RETRIES_EXCEEDED = "job_max_retries_exceeded"
    JOB_FAILED_PATTERN = "job_failed_pattern"
    WORKER_STARTUP = "worker_startup"
    WORKER_SHUTDOWN = "worker_shutdown"
    QUEUE_STUCK = "queue_stuck"
    TRIGGER_ERROR = "trigger_error"
    HORIZON_PINNED = "horizon_pinned"


ORDINARY = frozenset(AlertType) - {AlertType.WORKER_STARTUP, AlertType.WORKER_SHUTDOWN}
"""The types that are on by default."""


def chosen_types(text: str) -> frozenset[AlertType]:
    """Return the types that a setting enables.

    The setting is a list of types, or ``+`` and ``-`` changes to the default.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    changes = [word for word in words if word[0] in "+-"]
    if changes and len(changes) < len(words):
        raise ConfigurationError(
            "alert_types must be either types or changes with + and -, like +worker_shutdown; not both"
        )
    if not changes:
        return frozenset(map(_known_type, words))
    added = {_known_type(word[1:]) for word in changes if word[0] == "+"}
    removed = {_known_type(word[1:]) for word in changes if word[0] == "-"}
    return (ORDINARY | added) - removed


def _known_type(word: str) -> AlertType:
    try:
        return AlertType(word.strip())
    except ValueError:
        names = ", ".join(AlertType)
        raise ConfigurationError(f"alert_types: unknown type {word!r}; the types are {names}") from None


class Shape(StrEnum):
    """The message format of a destination."""

    JSON = "json"
    SLACK = "slack"
    DISCORD = "discord"


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination of alerts. Its URL is a secret: it is the only credential needed to post there."""

    name: str
    shape: Shape
    url: SplitResult = field(repr=False)

    @property
    def word(self) -> str:
        """The capability of workers that know this destination. Jobs that send to it require it."""
        return f"webhook:{self.name}"


_ENTRY = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_.-]{1,60})=)?(?:(?P<shape>[A-Za-z]+)\+)?(?P<url>https?://\S+)", re.IGNORECASE
)
_HOSTS = {
    "hooks.slack.com": Shape.SLACK,
    "hooks.slack-gov.com": Shape.SLACK,
    "discord.com": Shape.DISCORD,
    "discordapp.com": Shape.DISCORD,
    "ptb.discord.com": Shape.DISCORD,
    "canary.discord.com": Shape.DISCORD,
}


def destinations(text: str) -> tuple[Destination, ...]:
    """Parse ``alert_webhook_url``: URLs separated by commas or spaces, each ``[name=][format+]https://...``.

    Error messages never repeat the text, because it is a secret.
    """
    found: dict[str, Destination] = {}
    for number, entry in enumerate((word for word in re.split(r"[,\s]+", text) if word), start=1):
        item = _destination(entry, number, found.keys())
        if item.name in found:
            raise ConfigurationError(f"alert_webhook_url: two destinations are named {item.name!r}")
        found[item.name] = item
    return tuple(found.values())


def _destination(entry: str, number: int, taken: Collection[str]) -> Destination:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise ConfigurationError(
            f"alert_webhook_url: entry {number} is not a URL that starts with http:// or https://"
        )
    url = _checked_url(match["url"], number)
    shape = _shape(match["shape"], url.hostname or "", number)
    return Destination(match["name"] or _free_name(shape, taken), shape, url)


def _checked_url(text: str, number: int) -> SplitResult:
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        raise ConfigurationError(f"alert_webhook_url: entry {number} is not a valid URL") from None
    if not host or not url.netloc.isascii() or not text.isprintable():
        raise ConfigurationError(f"alert_webhook_url: entry {number} has no host, or one that is not ASCII")
    if url.username is not None or url.password is not None:
        raise ConfigurationError(
            f"alert_webhook_url: entry {number} contains a user or password, which is not supported"
        )
    return url


def _shape(word: str | None, host: str, number: int) -> Shape:
    if word is None:
        return _HOSTS.get(host.lower(), Shape.JSON)
    try:
        return Shape(word.lower())
    except ValueError:
        raise ConfigurationError(
            f"alert_webhook_url: entry {number} has the unknown format {word!r}; "
            f"the formats are {', '.join(Shape)}, for example slack+https://..."
        ) from None


def _free_name(shape: Shape, taken: Collection[str]) -> str:
    base = "webhook" if shape is Shape.JSON else shape.value
    names = [base, *(f"{base}-{number}" for number in range(2, 100))]
    return next(name for name in names if name not in taken)
