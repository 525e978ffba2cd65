"""All metrics: name, help text and labels. The documentation is generated from this table."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]
Scope = Literal["database", "server", "worker", "keeper"]


class Metric(NamedTuple):
    """A metric.

    ``scope``: database (the same from every server) or the kind of process that exposes it.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    scope: Scope

    @property
    def base(self) -> str:
        """The name that the client library expects."""
        return self.name.removesuffix("_total")


_LINE = ("tenant", "queue", "kind")

QUEUE_JOBS = Metric(
    "posthouse_queue_jobs", "gauge", "Jobs that are ready, scheduled, blocked or running now.",
    ("tenant", "queue", "status"), "database",
)  # fmt: skip
OLDEST_READY = Metric(
    "posthouse_queue_oldest_ready_seconds", "gauge", "Seconds since the oldest ready job could have started.",
    ("tenant", "queue"), "database",
)  # fmt: skip
PAUSED = Metric("posthouse_queue_paused", "gauge", "1 for each paused queue.", ("queue",), "database")
WORKERS = Metric(
    "posthouse_workers", "gauge", "Workers by status; offline workers are counted for an hour.",
    ("status",), "database",
)  # fmt: skip
KEEPERS = Metric("posthouse_keeper_sessions", "gauge", "Database connections of keepers.", (), "database")
ENQUEUED = Metric("posthouse_jobs_enqueued_total", "counter", "Jobs enqueued.", _LINE, "database")
FINISHED = Metric(
    "posthouse_jobs_finished_total", "counter",
    "Jobs finished, by status: succeeded, failed, dead_letter or canceled.",
    (*_LINE, "status"), "database",
)  # fmt: skip
FAILURES = Metric(
    "posthouse_attempt_failures_total", "counter",
    "Attempts that failed, timed out, crashed or were lost.", _LINE, "database",
)  # fmt: skip
RETRIES = Metric(
    "posthouse_attempt_retries_total", "counter", "Failed attempts after which the job was retried.",
    _LINE, "database",
)  # fmt: skip
RESCUES = Metric(
    "posthouse_attempt_rescues_total", "counter", "Attempts lost because their worker died.",
    _LINE, "database",
)  # fmt: skip
WAIT = Metric(
    "posthouse_job_wait_seconds", "histogram", "Seconds from when a job could start until it started.",
    ("queue", "kind"), "database",
)  # fmt: skip
RUN = Metric(
    "posthouse_job_run_seconds", "histogram", "Seconds from the start of an attempt to its end.",
    ("queue", "kind"), "database",
)  # fmt: skip
TOTALS_AGE = Metric(
    "posthouse_totals_age_seconds", "gauge", "Seconds since the last minute included in the job counters.",
    (), "database",
)  # fmt: skip
ALERTS = Metric(
    "posthouse_alerts_raised_total", "counter", "Alerts raised.", ("type", "severity"), "database"
)
ALERTS_HELD = Metric(
    "posthouse_alerts_suppressed_total", "counter",
    "Alerts suppressed during the cool-down of their subject.",
    ("type", "severity"), "database",
)  # fmt: skip
ALERT_MESSAGES = Metric(
    "posthouse_alert_messages_total", "counter", "Alert messages by result: sent or failed.",
    ("type", "result"), "database",
)  # fmt: skip
BUILD = Metric("posthouse_build_info", "gauge", "Version of the server, as a label.", ("version",), "server")
REQUESTS = Metric(
    "posthouse_http_request_duration_seconds", "histogram",
    "Seconds from a request to the start of its response.", ("method", "route", "status"), "server",
)  # fmt: skip
POOL = Metric(
    "posthouse_pool_connections", "gauge", "Connections in the server's pool, idle or busy.",
    ("state",), "server",
)  # fmt: skip
POOL_WAITING = Metric(
    "posthouse_pool_waiting_requests", "gauge", "Requests waiting for a database connection.", (), "server"
)
STREAMS = Metric("posthouse_stream_clients", "gauge", "Open event streams.", (), "server")
ATTEMPTS = Metric(
    "posthouse_worker_attempts_total", "counter", "Attempts of this worker, by outcome.",
    ("outcome",), "worker",
)  # fmt: skip
ATTEMPT_SECONDS = Metric(
    "posthouse_worker_attempt_duration_seconds", "histogram", "Duration of attempts in seconds.",
    ("kind",), "worker",
)  # fmt: skip
IN_FLIGHT = Metric(
    "posthouse_worker_jobs_in_flight", "gauge", "Jobs whose leases this worker holds.", (), "worker"
)
SLOTS = Metric(
    "posthouse_worker_slots", "gauge", "Maximum number of jobs that this worker runs at once.", (), "worker"
)
CLAIMED = Metric(
    "posthouse_worker_claimed_jobs_total", "counter", "Jobs claimed by this worker.", (), "worker"
)
CLAIM_SECONDS = Metric(
    "posthouse_worker_claim_duration_seconds", "histogram", "Duration of claims in seconds.", (), "worker"
)
SERVICE_SECONDS = Metric(
    "posthouse_keeper_service_duration_seconds", "histogram",
    "Duration of runs of keeper services in seconds.", ("service",), "keeper",
)  # fmt: skip
SERVICE_FAILURES = Metric(
    "posthouse_keeper_service_failures_total",
    "counter",
    "Failed runs of keeper services.",
    ("service",),
    "keeper",
)

HINTS = Metric(
    "posthouse_dispatch_hints", "gauge", "Hints from Redis that workers of this process have followed.",
    (), "worker",
)  # fmt: skip
CIRCUITS_OPEN = Metric(
    "posthouse_dispatch_circuits_open", "gauge",
    "Readers of Redis in this process whose circuit breaker is not closed.", (), "worker",
)  # fmt: skip

METRICS: tuple[Metric, ...] = tuple(item for item in globals().values() if isinstance(item, Metric))
