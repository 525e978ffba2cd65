"""Serves the metrics of a worker or keeper on a port of their own: neither has another one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server

from posthouse.errors import ConfigurationError
from posthouse.keeper.service import observe_steps
from posthouse.metrics.keeper import KeeperMetrics
from posthouse.metrics.process import process_registry
from posthouse.metrics.worker import WorkerMetrics
from posthouse.worker.observing import observe_with


def measured(*, worker: bool) -> CollectorRegistry:
    """What this process does from now on, as a keeper and, if it is one, as a worker."""
    registry = process_registry()
    observe_steps(KeeperMetrics(registry))
    if worker:
        observe_with(WorkerMetrics(registry))
    return registry


def serve(host: str, port: int, *, worker: bool) -> int:
    """Starts to measure and to answer, in a thread; the port, which is a free one for 0."""
    try:
        server, _ = start_http_server(port, host, measured(worker=worker))
    except OSError as error:
        raise ConfigurationError(
            f"cannot serve metrics on {host} port {port}: {error.strerror or error}; "
            "choose another with --metrics-port"
        ) from None
    return int(server.server_port)
