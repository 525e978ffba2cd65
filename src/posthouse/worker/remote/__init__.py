"""The backend of a worker without a database: a Posthouse server, over HTTP."""

from posthouse.worker.remote.backend import HttpBackend

__all__ = ["HttpBackend"]
