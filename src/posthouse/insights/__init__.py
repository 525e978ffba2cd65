"""The one read side: what the command line, the API, the console and metrics know of jobs.

Every function takes a psycopg AsyncConnection and returns plain data. Times are the database's.
"""

from posthouse.insights.audit import AuditEntry, AuditFilter, follow_audit, list_audit
from posthouse.insights.fleet import (
    DefinitionInfo,
    NamedWorker,
    QueueCounts,
    QueueInfo,
    TenantInfo,
    WorkerChange,
    WorkerInfo,
    definitions,
    get_definition,
    queue_counts,
    queue_is_known,
    queue_overview,
    tenants,
    worker_changes,
    workers,
    workers_named,
)
from posthouse.insights.jobs import (
    AttemptInfo,
    JobDetail,
    JobFilter,
    JobSummary,
    attempts_of,
    get_job,
    list_jobs,
)
from posthouse.insights.limits import LimitInfo, SlotInfo, limit_slots, limits
from posthouse.insights.logs import LogLine, WhichAttempt, follow_log, log_of
from posthouse.insights.overview import Overview, database_now, overview
from posthouse.insights.progress import PartInfo, StepInfo, parts_of, steps_of
from posthouse.insights.reasons import Blocker, Hindrance, Holder, Server, Why
from posthouse.insights.retention import KeptThing, RetentionReport, TenantKept, retention
from posthouse.insights.triggers import (
    EventInfo,
    MatchInfo,
    TriggerInfo,
    events,
    get_event,
    get_trigger,
    matches_of,
    triggers,
)
from posthouse.insights.why import why

__all__ = [
    "AttemptInfo",
    "AuditEntry",
    "AuditFilter",
    "Blocker",
    "DefinitionInfo",
    "EventInfo",
    "Hindrance",
    "Holder",
    "JobDetail",
    "JobFilter",
    "JobSummary",
    "KeptThing",
    "LimitInfo",
    "LogLine",
    "MatchInfo",
    "NamedWorker",
    "Overview",
    "PartInfo",
    "QueueCounts",
    "QueueInfo",
    "RetentionReport",
    "Server",
    "SlotInfo",
    "StepInfo",
    "TenantInfo",
    "TenantKept",
    "TriggerInfo",
    "WhichAttempt",
    "Why",
    "WorkerChange",
    "WorkerInfo",
    "attempts_of",
    "database_now",
    "definitions",
    "events",
    "follow_audit",
    "follow_log",
    "get_definition",
    "get_event",
    "get_job",
    "get_trigger",
    "limit_slots",
    "limits",
    "list_audit",
    "list_jobs",
    "log_of",
    "matches_of",
    "overview",
    "parts_of",
    "queue_counts",
    "queue_is_known",
    "queue_overview",
    "retention",
    "steps_of",
    "tenants",
    "triggers",
    "why",
    "worker_changes",
    "workers",
    "workers_named",
]
