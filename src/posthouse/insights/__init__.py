"""The one read side: what the command line, the API, the console and metrics know of jobs.

Every function takes a psycopg AsyncConnection and returns plain data. Times are the database's.
"""

from posthouse.insights.fleet import (
    DefinitionInfo,
    QueueInfo,
    WorkerInfo,
    definitions,
    queue_overview,
    workers,
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
from posthouse.insights.overview import Overview, database_now, overview
from posthouse.insights.why import Blocker, Server, Why, why

__all__ = [
    "AttemptInfo",
    "Blocker",
    "DefinitionInfo",
    "JobDetail",
    "JobFilter",
    "JobSummary",
    "Overview",
    "QueueInfo",
    "Server",
    "Why",
    "WorkerInfo",
    "attempts_of",
    "database_now",
    "definitions",
    "get_job",
    "list_jobs",
    "overview",
    "queue_overview",
    "why",
    "workers",
]
