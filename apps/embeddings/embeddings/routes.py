"""Over HTTP: rules, what is near to them, and the jobs that embed them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, HTTPException, Query
from psycopg.rows import dict_row
from pydantic import BaseModel, Field, StringConstraints

from embeddings.providers import Rejected, provider
from embeddings.search import near_rule, near_text
from embeddings.store import Db, statement
from posthouse.server import Access, Permission, allow

router = APIRouter(tags=["embeddings"])
Reader = Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, of_tenants=True)]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
Most = Annotated[int, Query(ge=1, le=100)]
Row = dict[str, Any]


class NewRule(BaseModel, extra="forbid"):
    rule_id: Annotated[Line, Field(max_length=200)]
    title: Line
    guidance: Line
    rationale: Line | None = None
    priority: Literal["low", "medium", "high", "critical"] = "medium"


class RuleChange(BaseModel, extra="forbid"):
    title: Line | None = None
    guidance: Line | None = None
    rationale: Line | None = None
    priority: Literal["low", "medium", "high", "critical"] | None = None


class NewJob(BaseModel, extra="forbid"):
    rule_id: UUID
    priority: Literal["low", "normal", "high", "urgent"] = "normal"
    embedding_model: Line | None = None


@router.post("/jobs/embedding", status_code=201)
async def create_job(new: NewJob, access: Writer) -> Row:
    """Embed a rule, again or with another model. While there is a job for its text, that one is returned."""
    async with access.session() as db:
        asked = new.model_dump() | {"actor": access.actor}
        job_id = (await _one(db, "request_job", asked, "there is no such rule"))["id"]
        return await _one(db, "show_job", {"id": job_id}, "there is no such job")


@router.get("/jobs/embedding")
async def list_jobs(
    access: Reader,
    status: Literal["pending", "processing", "completed", "failed", "retrying", "canceled"] | None = None,
    limit: Most = 50,
) -> list[Row]:
    """Jobs, newest first."""
    async with access.session() as db:
        return await _rows(db, "list_jobs", {"status": status, "limit": limit})


@router.get("/jobs/embedding/{job_id}")
async def show_job(job_id: UUID, access: Reader) -> Row:
    """One job, with its status."""
    async with access.session() as db:
        return await _one(db, "show_job", {"id": job_id}, "there is no such job")


@router.delete("/jobs/embedding/{job_id}")
async def cancel_job(job_id: UUID, access: Writer) -> Row:
    """Cancel it: at once if it is pending, through its worker if it is being processed."""
    async with access.session() as db:
        asked = {"id": job_id, "actor": access.actor}
        status = (await _one(db, "cancel_job", asked, "there is no such job"))["status"]
    if status not in {"canceled", "canceling"}:
        raise HTTPException(409, f"the job has ended: it is {status}")
    return {"id": job_id, "status": status}


@router.get("/embeddings/queue")
async def queue_health(access: Reader) -> list[Row]:
    """How many jobs there are of each status and priority, and how long they took."""
    async with access.session() as db:
        return await _rows(db, "queue_health", {})


@router.get("/embeddings/workers")
async def worker_performance(access: Reader) -> list[Row]:
    """What each worker did in the last day."""
    async with access.session() as db:
        return await _rows(db, "worker_performance", {})


@router.post("/embeddings/rules", status_code=201)
async def add_rule(new: NewRule, access: Writer) -> Row:
    """Add a rule; it is embedded as soon as a worker gets to it."""
    access = access.writer()
    async with access.session() as db:
        return await _one(db, "add_rule", new.model_dump(), f"there is a rule {new.rule_id!r} already", 409)


@router.patch("/embeddings/rules/{rule}")
async def change_rule(rule: UUID, change: RuleChange, access: Writer) -> Row:
    """Change a rule; it is embedded again if its text is another."""
    async with access.session() as db:
        return await _one(db, "change_rule", change.model_dump() | {"id": rule}, "there is no such rule")


@router.get("/embeddings/rules/{rule}")
async def show_rule(rule: UUID, access: Reader) -> Row:
    async with access.session() as db:
        return await _one(db, "show_rule", {"id": rule}, "there is no such rule")


@router.delete("/embeddings/rules/{rule}")
async def delete_rule(rule: UUID, access: Writer) -> Row:
    """Delete a rule. A job that it still has ends as canceled."""
    async with access.session() as db:
        return await _one(db, "delete_rule", {"id": rule}, "there is no such rule")


@router.get("/embeddings/rules/{rule}/near")
async def rules_near_rule(rule: UUID, access: Reader, limit: Most = 10) -> list[Row]:
    """The rules that are nearest to a rule."""
    async with access.session() as db:
        await _one(db, "show_rule", {"id": rule}, "there is no such rule")
        return await near_rule(db, rule, limit)


@router.get("/embeddings/search")
async def rules_near_text(q: Line, access: Reader, limit: Most = 10) -> list[Row]:
    """The rules that are nearest to a text."""
    model = provider().model
    try:
        (vector,) = await provider().embed(model, [q])
    except (Rejected, ConnectionError) as error:
        raise HTTPException(503, f"the text cannot be embedded: {error}") from None
    async with access.session() as db:
        return await near_text(db, model, vector, limit)


async def _rows(db: Db, name: str, parameters: Row) -> list[Row]:
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement(name), parameters)
        return await cursor.fetchall()


async def _one(db: Db, name: str, parameters: Row, otherwise: str, status: int = 404) -> Row:
    rows = await _rows(db, name, parameters)
    if not rows:
        raise HTTPException(status, otherwise)
    return rows[0]
