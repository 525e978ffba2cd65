"""Serves the metrics of a worker or keeper on a port, and whether it is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from posthouse.errors import ConfigurationError
from posthouse.keeper.service import observe_steps
from posthouse.metrics.keeper import KeeperMetrics
from posthouse.metrics.process import process_registry
from posthouse.metrics.worker import WorkerMetrics
from posthouse.worker.observing import observe_with

LIVE_PATH = "/livez"


def measured(*, worker: bool, keeper: bool = True) -> CollectorRegistry:
    """Return a registry that measures this process, its keeper and its worker."""
    registry = process_registry()
    if keeper:
        observe_steps(KeeperMetrics(registry))
    if worker:
        observe_with(WorkerMetrics(registry))
    return registry


def serve(host: str, port: int, registry: CollectorRegistry, problems: Callable[[], Iterable[str]]) -> int:
    """Serve metrics and /livez in a thread; return the port. Port 0 selects a free one.

    /livez answers 200, or 503 with the ``problems``, one per line.
    """
    metrics = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != LIVE_PATH:
            found: Iterable[bytes] = metrics(environ, start)
            return found
        told = "\n".join(problems())
        start(
            "503 Service Unavailable" if told else "200 OK", [("Content-Type", "text/plain; charset=utf-8")]
        )
        return [f"{told or 'ok'}\n".encode()]

    try:
        server = make_server(host, port, answer, ThreadingWSGIServer, handler_class=_Silent)
    except OSError as error:
        raise ConfigurationError(
            f"cannot serve metrics on {host} port {port}: {error.strerror or error}; "
            "choose another with --metrics-port"
        ) from None
    threading.Thread(target=server.serve_forever, name="posthouse-metrics", daemon=True).start()
    return int(server.server_port)


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Requests are not logged."""
