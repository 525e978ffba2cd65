"""Posthouse: durable jobs for Python that live in Postgres."""

from posthouse.app import App
from posthouse.client.client import Client
from posthouse.client.handle import Handle
from posthouse.client.sync import SyncClient
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
    "PosthouseError",
    "Request",
    "Retry",
    "Snooze",
    "SyncClient",
]
