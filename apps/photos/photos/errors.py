"""Permanent and temporary errors."""


class Hopeless(Exception):
    """A permanent error: a retry cannot succeed."""


class Later(Exception):
    """A temporary error: a later retry may succeed."""
