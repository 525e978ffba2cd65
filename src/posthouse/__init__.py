"""Posthouse: durable jobs for Python, stored in Postgres."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posthouse.app import App
    from posthouse.client.client import Client, Handle
    from posthouse.client.sync import SyncClient
    from posthouse.core.limit import Limit
    from posthouse.core.outcome import Cancel, Fail, Snooze
    from posthouse.core.request import Request
    from posthouse.core.retry import Retry
    from posthouse.errors import JobFailed, LeaseLost, PosthouseError
    from posthouse.worker.job import Job

__all__ = [
    "App",
    "Cancel",
    "Client",
    "Fail",
    "Handle",
    "Job",
    "JobFailed",
    "LeaseLost",
    "Limit",
    "PosthouseError",
    "Request",
    "Retry",
    "Snooze",
    "SyncClient",
]

_HOMES = {
    "App": "posthouse.app",
    "Cancel": "posthouse.core.outcome",
    "Client": "posthouse.client.client",
    "Fail": "posthouse.core.outcome",
    "Handle": "posthouse.client.client",
    "Job": "posthouse.worker.job",
    "JobFailed": "posthouse.errors",
    "LeaseLost": "posthouse.errors",
    "Limit": "posthouse.core.limit",
    "PosthouseError": "posthouse.errors",
    "Request": "posthouse.core.request",
    "Retry": "posthouse.core.retry",
    "Snooze": "posthouse.core.outcome",
    "SyncClient": "posthouse.client.sync",
}

if not TYPE_CHECKING:  # hidden from type checkers, which would accept any attribute name

    def __getattr__(name: str) -> Any:
        """Import a public name on first use.

        `posthouse --help` then needs no database driver; loading one takes 0.3 s.
        """
        if name not in _HOMES:
            raise AttributeError(f"module 'posthouse' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 - loaded on first use

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
