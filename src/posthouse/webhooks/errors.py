"""Why a message did not arrive. No text of these tells the URL: it is a secret."""

from __future__ import annotations


class WebhookError(Exception):
    """A message did not arrive."""


class Unreachable(WebhookError):
    """There was no answer. Another try may help."""


class Refusal(WebhookError):
    """The destination said no. Another try may help."""


class AddressRefused(WebhookError):
    """It leads to where nothing may be sent. Another try would not help."""


class Misdirected(WebhookError):
    """It wants us to go elsewhere, or is gone for good. Another try would not help."""
