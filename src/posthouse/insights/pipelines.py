"""Pipelines: the jobs of a correlation and their dependencies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from typing_extensions import TypedDict

from posthouse.insights.jobs import JobDetail, get_job
from posthouse.insights.masking import DEFAULT_MASK
from posthouse.storage.queries import Db, fetch, fetch_rows

MAX_NODES = 200
MAX_RELATED = 50
"""Maximum number of related jobs that are added to those of the correlation."""
MAX_COUNTED = 10_000
GENERATIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StageInfo:
    """Progress of the jobs of one kind."""

    kind: str
    jobs: int
    succeeded: int
    unsuccessful: int
    done: float
    """Number of jobs that succeeded, plus the progress of the others as fractions of a job."""

    def __add__(self, other: StageInfo) -> StageInfo:
        """Add the same stage of two pipelines."""
        return StageInfo(
            kind=self.kind,
            jobs=self.jobs + other.jobs,
            succeeded=self.succeeded + other.succeeded,
            unsuccessful=self.unsuccessful + other.unsuccessful,
            done=self.done + other.done,
        )

    @property
    def active(self) -> int:
        return self.jobs - self.succeeded - self.unsuccessful


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineJob:
    """A job of a pipeline. ``parent_id``: the job that enqueued it."""

    id: UUID
    kind: str
    queue: str
    status: str
    job_table: str
    subject: str | None
    progress_percent: float | None
    current_step: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt_count: int
    max_attempts: int
    last_error: str | None
    parent_id: UUID | None
    depends_on: list[UUID]


Edge = TypedDict("Edge", {"from": UUID, "to": UUID, "type": Literal["depends_on", "follow_up"]})
"""An edge of the graph.

``depends_on``: the second job waits for the first to finish. ``follow_up``: the first job enqueued the
second.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline. ``truncated``: there are more jobs; ``stages`` count up to ``count_limit``."""

    job_id: UUID
    correlation_id: str | None
    nodes: list[PipelineJob]
    edges: list[Edge]
    stages: list[StageInfo]
    count_limit: int
    truncated: bool


async def stages_of(connection: Db, correlation_id: str) -> list[StageInfo]:
    """Return the stages in the order of their first jobs."""
    return await fetch(connection, "correlation_stages", StageInfo, correlation_id=correlation_id)


async def pipeline_of(connection: Db, job_id: UUID, *, tenant: str | None = None) -> Pipeline:
    """Return the graph of a job: its correlation, the dependencies of those jobs, and their dependants."""
    job = await get_job(connection, job_id, tenant=tenant)
    chosen = {"correlation": job.correlation_id or str(job.id), "tenant": job.tenant_id}
    found = await fetch(connection, "pipeline_of_correlation", PipelineJob, **chosen, most=MAX_NODES + 1)
    nodes = {node.id: node for node in found[:MAX_NODES]}
    await _add_related(connection, job, nodes)
    return Pipeline(
        job_id=job.id,
        correlation_id=job.correlation_id,
        nodes=[_shown(node, nodes) for node in sorted(nodes.values(), key=lambda node: node.id)],
        edges=_edges(nodes),
        stages=await fetch(connection, "pipeline_stages", StageInfo, **chosen, most=MAX_COUNTED),
        count_limit=MAX_COUNTED,
        truncated=len(found) > MAX_NODES,
    )


async def _add_related(connection: Db, job: JobDetail, nodes: dict[UUID, PipelineJob]) -> None:
    """Add the job itself, its predecessor, and the origins of the others.

    They may have another correlation.
    """
    waiting = await fetch_rows(connection, "pipeline_dependents", id=job.id, most=MAX_RELATED)
    wanted = {job.id, *_origin(job.correlation_id), *(row["id"] for row in waiting)}
    most = len(nodes) + MAX_RELATED
    for _ in range(GENERATIONS):
        linked = {
            linked for node in nodes.values() for linked in (*node.depends_on, node.parent_id) if linked
        }
        missing = sorted((wanted | linked) - nodes.keys(), key=lambda id_: id_ != job.id)[: most - len(nodes)]
        added = await _by_id(connection, missing, job.tenant_id)
        nodes.update({node.id: node for node in added})
        if not added:
            return


async def _by_id(connection: Db, ids: list[UUID], tenant: str) -> list[PipelineJob]:
    return await fetch(connection, "pipeline_of_ids", PipelineJob, ids=ids, tenant=tenant) if ids else []


def _origin(correlation: Any) -> list[UUID]:
    """Return the id of the first job: follow-ups of a job without a correlation id use its id."""
    try:
        return [UUID(correlation)]
    except (TypeError, ValueError, AttributeError):
        return []


def _shown(node: PipelineJob, nodes: Collection[UUID]) -> PipelineJob:
    """Hide dependencies that belong to another tenant, including their ids."""
    return replace(DEFAULT_MASK.of(node), depends_on=[id_ for id_ in node.depends_on if id_ in nodes])


def _edges(nodes: dict[UUID, PipelineJob]) -> list[Edge]:
    made: list[Edge] = [
        {"from": node.parent_id, "to": node.id, "type": "follow_up"}
        for node in nodes.values()
        if node.parent_id is not None and node.parent_id in nodes
    ]
    waits: list[Edge] = [
        {"from": before, "to": node.id, "type": "depends_on"}
        for node in nodes.values()
        for before in node.depends_on
        if before in nodes
    ]
    return [*waits, *made]
