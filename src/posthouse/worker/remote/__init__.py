"""A worker without a database: it gets its jobs from a server, over HTTP."""

from posthouse.worker.remote.remote import Remote

__all__ = ["Remote"]
