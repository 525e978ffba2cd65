"""HTTP routes of the application: rules, similarity search, and embedding jobs."""

from __future__ import annotations

import pathlib
from typing import Annotated, Literal
from uuid import UUID

from fastapi import HTTPException, Path, Query

from embeddings import model_routes
from embeddings.db import Row, fetch_all, fetch_one
from embeddings.models import find_models
from embeddings.providers import Rejected, embed
from embeddings.requests import NewJob, NewRule, NonEmptyText, RuleChange, row_or_error
from embeddings.store import near_rule, near_text
from posthouse.server import Access, Permission, allow, api_router, app_pages

router = api_router("", "embeddings")
router.include_router(model_routes.router)
router.include_router(app_pages("embeddings", "Embeddings", pathlib.Path(__file__).with_name("page")))
Reader = Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]
Limit = Annotated[int, Query(ge=1, le=100, description="Maximum number of rows.")]
RuleId = Annotated[UUID, Path(description="Id of the rule.")]
JobId = Annotated[UUID, Path(description="Id of the job.")]


@router.post("/jobs/embedding", status_code=201)
async def create_job(new: NewJob, access: Writer) -> Row:
    """Request the embedding of a rule.

    Embeds the rule again, or with another model. If a job for the same text is active, that job is returned.
    """
    async with access.transaction() as db:
        parameters = new.model_dump() | {"actor": access.actor}
        job_id = (row_or_error(await fetch_one(db, "job_request", parameters), "rule not found"))["id"]
        return row_or_error(await fetch_one(db, "job_show", {"id": job_id}), "job not found")


@router.get("/jobs/embedding")
async def list_jobs(
    access: Reader,
    status: Annotated[
        Literal["pending", "processing", "completed", "failed", "retrying", "canceled"] | None,
        Query(description="Only jobs with this status."),
    ] = None,
    limit: Limit = 50,
) -> list[Row]:
    """List embedding jobs, newest first."""
    async with access.transaction() as db:
        return await fetch_all(db, "jobs_list", {"status": status, "limit": limit})


@router.get("/jobs/embedding/{job_id}")
async def show_job(job_id: JobId, access: Reader) -> Row:
    """Get an embedding job."""
    async with access.transaction() as db:
        return row_or_error(await fetch_one(db, "job_show", {"id": job_id}), "job not found")


@router.delete("/jobs/embedding/{job_id}")
async def cancel_job(job_id: JobId, access: Writer) -> Row:
    """Cancel an embedding job.

    A pending job is canceled immediately, a running one by its worker.
    """
    async with access.transaction() as db:
        parameters = {"id": job_id, "actor": access.actor}
        status = (row_or_error(await fetch_one(db, "job_cancel", parameters), "job not found"))["status"]
    if status not in {"canceled", "canceling"}:
        raise HTTPException(409, f"cannot cancel job {job_id}: it has already ended with status {status}")
    return {"id": job_id, "status": status}


@router.get("/embeddings/queue")
async def queue_health(access: Reader) -> list[Row]:
    """Count the embedding jobs by status and priority.

    With their average duration.
    """
    async with access.transaction() as db:
        return await fetch_all(db, "queue_health", {})


@router.get("/embeddings/coverage")
async def coverage(access: Reader) -> Row:
    """Count rules with a vector, jobs, and reused vectors.

    During a change of the model, also the texts that have a vector of the next one.
    """
    async with access.transaction() as db:
        model = (await find_models(db)).active
        return {"model": model} | row_or_error(await fetch_one(db, "coverage", {}), "no figures")


@router.get("/embeddings/workers")
async def worker_performance(access: Reader) -> list[Row]:
    """Get the performance of workers in the last 24 hours."""
    async with access.transaction() as db:
        return await fetch_all(db, "worker_performance", {})


@router.post("/embeddings/rules", status_code=201)
async def add_rule(new: NewRule, access: Writer) -> Row:
    """Create a rule.

    A job to embed it is enqueued in the same transaction.
    """
    access = access.with_default_tenant()
    async with access.transaction() as db:
        return row_or_error(
            await fetch_one(db, "rule_add", new.model_dump()), f"rule {new.rule_id!r} already exists", 409
        )


@router.patch("/embeddings/rules/{rule}")
async def change_rule(rule: RuleId, change: RuleChange, access: Writer) -> Row:
    """Change a rule.

    If its text changes, a job to embed it is enqueued.
    """
    async with access.transaction() as db:
        parameters = {"id": rule, "has_rationale": "rationale" in change.model_fields_set}
        return row_or_error(
            await fetch_one(db, "rule_change", change.model_dump() | parameters), "rule not found"
        )


@router.get("/embeddings/rules/{rule}")
async def show_rule(rule: RuleId, access: Reader) -> Row:
    """Get a rule."""
    async with access.transaction() as db:
        return row_or_error(await fetch_one(db, "rule_show", {"id": rule}), "rule not found")


@router.delete("/embeddings/rules/{rule}")
async def delete_rule(rule: RuleId, access: Writer) -> Row:
    """Delete a rule.

    Its jobs are canceled, and their texts and results erased. Its vector is deleted unless another rule has
    the same text.
    """
    async with access.transaction() as db:
        return row_or_error(
            await fetch_one(db, "rule_delete", {"id": rule, "actor": access.actor}), "rule not found"
        )


@router.get("/embeddings/rules/{rule}/near")
async def rules_near_rule(rule: RuleId, access: Reader, limit: Limit = 10) -> list[Row]:
    """List the rules most similar to a rule."""
    async with access.transaction() as db:
        row_or_error(await fetch_one(db, "rule_show", {"id": rule}), "rule not found")
        return await near_rule(db, rule, limit)


@router.get("/embeddings/search")
async def rules_near_text(
    q: Annotated[NonEmptyText, Query(description="Text to compare with.")], access: Reader, limit: Limit = 10
) -> list[Row]:
    """List the rules most similar to a text."""
    async with access.transaction() as db:
        model = (await find_models(db)).active
    try:
        (vector,) = await embed(model, [q])
    except (Rejected, ConnectionError) as error:
        raise HTTPException(503, f"cannot embed the text: {error}; retry later") from None
    async with access.transaction() as db:
        return await near_text(db, model, vector, limit)
