"""The backend of a worker without a database: a Posthouse server, over HTTP."""

from posthouse.worker.remote.remote import Remote

__all__ = ["Remote"]
