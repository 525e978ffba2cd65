"""Delivery errors. Their messages never contain the URL, which is a secret."""

from __future__ import annotations


class WebhookError(Exception):
    """A message was not delivered."""


class Unreachable(WebhookError):
    """No response. A retry may succeed."""


class Refusal(WebhookError):
    """The destination responded with an error. A retry may succeed."""


class AddressRefused(WebhookError):
    """The destination has an address that is not allowed. A retry does not help."""


class Misdirected(WebhookError):
    """The destination responded with a redirect or 410 Gone. A retry does not help."""
