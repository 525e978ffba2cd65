"""HTTP routes of the application. Callers see the calls of their own organisation."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import HTTPException, Query, Request

from calls import paths, result_routes
from calls.db import sql
from calls.handlers import discard, extract_audio
from calls.requests import CallId, Reader, Rows, Writer, fetch_all, get_call_or_404
from calls.settings import max_upload_bytes
from calls.stages import stage_options
from calls.storage import storage
from posthouse.server import Access, api_router, file_body

router = api_router("/calls", "calls")
Limit = Annotated[int, Query(ge=1, le=500, description="Page size.")]
Offset = Annotated[int, Query(ge=0, le=100_000, description="Rows to skip.")]


@router.post("", status_code=201)
async def upload_call(
    request: Request,
    access: Writer,
    title: Annotated[str, Query(max_length=500, description="Title of the call.")] = "",
) -> dict[str, Any]:
    """Upload a recording and start its processing.

    The body is the recording. The call and its job are created in one transaction.
    """
    access, call_id = access.with_default_tenant(), uuid4()
    raw = paths.raw(call_id)
    try:
        if await storage().receive(raw, file_body(request, max_upload_bytes())) == 0:
            raise HTTPException(422, "the request body is empty; send the recording as body")  # noqa: TRY301 - the file is deleted below
        async with access.transaction() as db:
            row = {"call": call_id, "org": access.tenant, "title": title, "actor": access.actor}
            await db.execute(sql("call_add"), row)
            await _start_processing(access, db, call_id)
    except BaseException:
        await asyncio.to_thread(storage().remove, [raw])
        raise
    return await get_call_or_404(access, call_id)


@router.get("")
async def list_calls(access: Reader, limit: Limit = 50, offset: Offset = 0) -> Rows:
    """List calls, newest first."""
    return await fetch_all(access, "calls_list", call=None, limit=limit, offset=offset)


@router.get("/search")
async def search(
    access: Reader,
    q: Annotated[str, Query(min_length=1, max_length=500, description="Words to search for.")],
    call_id: Annotated[UUID | None, Query(description="Only this call.")] = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Rows:
    """Search in transcripts.

    Returns the phrases that contain all words, or words that begin with them: of the newest call first, of
    calls with low confidence last.
    """
    return await fetch_all(access, "search", text=q, call=call_id, limit=limit, offset=offset)


@router.get("/{call_id}")
async def show_call(call_id: CallId, access: Reader) -> dict[str, Any]:
    """Get a call, its status and its current stage."""
    return await get_call_or_404(access, call_id)


@router.delete("/{call_id}", status_code=204)
async def delete_call(call_id: CallId, access: Writer) -> None:
    """Delete a call.

    Deletes its transcript and figures, cancels and erases its jobs, and deletes its files shortly after.
    """
    call = await get_call_or_404(access, call_id)
    access = access.for_tenant(call["org_id"])
    async with access.transaction() as db:
        deleted = await db.execute(sql("call_delete"), {"call": call_id, "actor": access.actor})
        if await deleted.fetchone() is None:  # deleted meanwhile
            raise HTTPException(404, f"call {call_id} does not exist")
        await discard.using(created_by=access.actor).enqueue(connection=db, call_id=call_id)


@router.get("/{call_id}/jobs")
async def list_jobs(call_id: CallId, access: Reader) -> Rows:
    """List the jobs of a call, in order of creation."""
    call = await get_call_or_404(access, call_id)
    return await fetch_all(access.for_tenant(call["org_id"]), "jobs_list", call=call_id)


@router.post("/{call_id}/process", status_code=202)
async def process(
    call_id: CallId,
    access: Writer,
    *,
    transcribe_again: Annotated[
        bool, Query(description="Replace the transcript, for example after a change of the model.")
    ] = False,
) -> dict[str, Any]:
    """Process a call again.

    Existing results are kept; missing ones are created.
    """
    call = await get_call_or_404(access, call_id)
    if call["status"] == "processing":
        raise HTTPException(
            409, f"call {call_id} is at stage {call['stage']}; wait until processing has finished"
        )
    if call["upload_deleted_at"] and call["duration"] is None:
        raise HTTPException(409, "the recording of this failed call was deleted; upload it again")
    access = access.for_tenant(call["org_id"])
    async with access.transaction() as db:
        await _start_processing(access, db, call_id, transcribe_again=transcribe_again)
    return await get_call_or_404(access, call_id)


router.include_router(result_routes.router)


async def _start_processing(access: Access, db: Any, call_id: UUID, **payload: bool) -> None:
    options: Any = {"correlation_id": str(call_id), "created_by": access.actor}
    first = extract_audio.using(**stage_options(extract_audio, call_id), **options)
    await first.enqueue(connection=db, call_id=call_id, raw_path=paths.raw(call_id), **payload)
