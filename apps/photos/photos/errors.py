"""Permanent and temporary errors."""


class PermanentError(Exception):
    """A permanent error: a retry cannot succeed."""


class TemporaryError(Exception):
    """A temporary error: a later retry may succeed."""
