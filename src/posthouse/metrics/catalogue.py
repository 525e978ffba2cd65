"""Every metric: its name, what it is, what it is split by. The documentation shows this table."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]
Place = Literal["database", "server", "worker", "keeper"]


class Metric(NamedTuple):
    """``place``: of the whole, read from the database and the same from every server; or of one process."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    place: Place

    @property
    def base(self) -> str:
        """The name as the client library takes it."""
        return self.name.removesuffix("_total")


_LINE = ("tenant", "queue", "kind")

QUEUE_JOBS = Metric(
    "posthouse_queue_jobs", "gauge", "Jobs that are ready, scheduled, blocked or running now.",
    ("tenant", "queue", "status"), "database",
)  # fmt: skip
OLDEST_READY = Metric(
    "posthouse_queue_oldest_ready_seconds", "gauge", "How long the oldest ready job could have started.",
    ("tenant", "queue"), "database",
)  # fmt: skip
PAUSED = Metric("posthouse_queue_paused", "gauge", "1 for a queue that is paused.", ("queue",), "database")
WORKERS = Metric(
    "posthouse_workers", "gauge", "Workers; offline are those that left within the last hour.",
    ("status",), "database",
)  # fmt: skip
KEEPERS = Metric("posthouse_keeper_sessions", "gauge", "Connections of keepers.", (), "database")
ENQUEUED = Metric("posthouse_jobs_enqueued_total", "counter", "Jobs that arrived.", _LINE, "database")
ENDED = Metric(
    "posthouse_jobs_ended_total", "counter",
    "Jobs that ended: succeeded, dead (failed for good) or canceled.",
    (*_LINE, "status"), "database",
)  # fmt: skip
FAILURES = Metric(
    "posthouse_attempt_failures_total", "counter",
    "Attempts that failed, timed out, crashed or were lost.", _LINE, "database",
)  # fmt: skip
RETRIES = Metric(
    "posthouse_attempt_retries_total", "counter", "Failed attempts after which the job went on.",
    _LINE, "database",
)  # fmt: skip
RESCUES = Metric(
    "posthouse_attempt_rescues_total", "counter", "Attempts that were lost with their worker.",
    _LINE, "database",
)  # fmt: skip
WAIT = Metric(
    "posthouse_job_wait_seconds", "histogram", "From the moment where a job could start to its start.",
    ("queue", "kind"), "database",
)  # fmt: skip
RUN = Metric(
    "posthouse_job_run_seconds", "histogram", "From the start of an attempt to its end.",
    ("queue", "kind"), "database",
)  # fmt: skip
TOTALS_AGE = Metric(
    "posthouse_totals_age_seconds", "gauge", "Since the end of the last minute that the counters above hold.",
    (), "database",
)  # fmt: skip
ALERTS = Metric(
    "posthouse_alerts_raised_total", "counter", "Alerts that were raised.", ("type", "severity"), "database"
)
ALERTS_HELD = Metric(
    "posthouse_alerts_suppressed_total", "counter",
    "Alerts that were held back while their subject cooled down.",
    ("type", "severity"), "database",
)  # fmt: skip
ALERT_MESSAGES = Metric(
    "posthouse_alert_messages_total", "counter", "Messages of alerts: sent, or failed for good.",
    ("type", "result"), "database",
)  # fmt: skip
BUILD = Metric(
    "posthouse_build_info", "gauge", "The version that answers, as a label.", ("version",), "server"
)
REQUESTS = Metric(
    "posthouse_http_request_duration_seconds", "histogram",
    "From a request to the beginning of its answer.", ("method", "route", "status"), "server",
)  # fmt: skip
POOL = Metric(
    "posthouse_pool_connections", "gauge", "Connections of the server's pool: idle or busy.",
    ("state",), "server",
)  # fmt: skip
POOL_WAITING = Metric(
    "posthouse_pool_waiting_requests", "gauge", "Requests that wait for a connection.", (), "server"
)
STREAMS = Metric("posthouse_stream_clients", "gauge", "Live streams that are open.", (), "server")
ATTEMPTS = Metric(
    "posthouse_worker_attempts_total", "counter", "Attempts that this worker ended, by outcome.",
    ("outcome",), "worker",
)  # fmt: skip
ATTEMPT_SECONDS = Metric(
    "posthouse_worker_attempt_duration_seconds", "histogram", "How long attempts ran here.",
    ("kind",), "worker",
)  # fmt: skip
IN_FLIGHT = Metric(
    "posthouse_worker_jobs_in_flight", "gauge", "Jobs whose leases this worker holds.", (), "worker"
)
SLOTS = Metric("posthouse_worker_slots", "gauge", "Jobs that this worker can run at once.", (), "worker")
CLAIMED = Metric(
    "posthouse_worker_claimed_jobs_total", "counter", "Jobs that this worker claimed.", (), "worker"
)
CLAIM_SECONDS = Metric(
    "posthouse_worker_claim_duration_seconds", "histogram", "How long it took to ask for work.", (), "worker"
)
STEP_SECONDS = Metric(
    "posthouse_keeper_step_duration_seconds", "histogram", "How long a step of the keeper took.",
    ("step",), "keeper",
)  # fmt: skip
STEP_FAILURES = Metric(
    "posthouse_keeper_step_failures_total", "counter", "Steps of the keeper that failed.", ("step",), "keeper"
)

METRICS: tuple[Metric, ...] = tuple(item for item in globals().values() if isinstance(item, Metric))
