"""HTTP routes of the application. Callers see the calls of their own organisation."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import HTTPException, Path, Query, Request
from fastapi.responses import StreamingResponse
from psycopg.rows import dict_row

from calls import paths
from calls.db import sql
from calls.handlers import extract_audio, stage_options
from calls.settings import max_upload_bytes
from calls.storage import NotStored, storage
from posthouse.server import Access, Permission, allow, api_router, file_body

router = api_router("/calls", "calls")
Reader = Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, of_tenants=True)]
CallId = Annotated[UUID, Path(description="Id of the call.")]
Limit = Annotated[int, Query(ge=1, le=500, description="Page size.")]
Offset = Annotated[int, Query(ge=0, le=100_000, description="Rows to skip.")]
Rows = list[dict[str, Any]]


@router.post("", status_code=201)
async def upload(
    request: Request,
    access: Writer,
    title: Annotated[str, Query(max_length=500, description="Title of the call.")] = "",
) -> dict[str, Any]:
    """Upload a recording and start its processing.

    The body is the recording. The call and its job are created in one transaction.
    """
    access, call_id = access.writer(), uuid4()
    raw = paths.raw(call_id)
    try:
        if await storage().receive(raw, file_body(request, max_upload_bytes())) == 0:
            raise HTTPException(422, "the request body is empty; send the recording as body")  # noqa: TRY301 - the file is deleted below
        async with access.session() as db:
            row = {"call": call_id, "org": access.whose, "title": title, "actor": access.actor}
            await db.execute(sql("call_add"), row)
            await _start(access, db, call_id)
    except BaseException:
        await asyncio.to_thread(storage().remove, [raw])
        raise
    return await show(call_id, access)


@router.get("")
async def calls(access: Reader, limit: Limit = 50, offset: Offset = 0) -> Rows:
    """List calls, newest first."""
    return await _rows(access, "calls_list", call=None, limit=limit, offset=offset)


@router.get("/{call_id}")
async def show(call_id: CallId, access: Reader) -> dict[str, Any]:
    """Get a call and its current stage."""
    rows = await _rows(access, "calls_list", call=call_id, limit=1, offset=0)
    if not rows:
        raise HTTPException(404, f"call {call_id} does not exist")
    return rows[0]


@router.get("/{call_id}/jobs")
async def jobs(call_id: CallId, access: Reader) -> Rows:
    """List the jobs of a call."""
    call = await show(call_id, access)
    return await _rows(access.of(call["org_id"]), "jobs_list", call=call_id)


@router.post("/{call_id}/process", status_code=202)
async def process(call_id: CallId, access: Writer) -> dict[str, Any]:
    """Process a call again.

    Existing results are kept; missing ones are created.
    """
    call = await show(call_id, access)
    if call["status"] == "processing":
        raise HTTPException(
            409, f"call {call_id} is at stage {call['stage']}; wait until processing has finished"
        )
    access = access.of(call["org_id"])
    async with access.session() as db:
        await _start(access, db, call_id)
    return await show(call_id, access)


@router.get("/{call_id}/audio")
async def audio(call_id: CallId, access: Reader) -> StreamingResponse:
    """Download the audio of a call as FLAC."""
    return await _file(call_id, access, paths.audio(call_id), "audio/flac")


@router.get("/{call_id}/transcript")
async def transcript(call_id: CallId, access: Reader) -> StreamingResponse:
    """Get the transcript of a call.

    Phrases with their speaker and the time of each word.
    """
    return await _file(call_id, access, paths.transcript(call_id), "application/json")


@router.get("/{call_id}/analysis")
async def analysis(call_id: CallId, access: Reader) -> dict[str, Any]:
    """Get the analysis of a call.

    Talk time, silence, speed and keywords.
    """
    await show(call_id, access)
    rows = await _rows(access, "analysis_show", call=call_id)
    if not rows:
        raise HTTPException(404, f"call {call_id} is not analysed yet; see its status")
    figures: dict[str, Any] = rows[0]["figures"]
    return figures


async def _start(access: Access, db: Any, call_id: UUID) -> None:
    signed: Any = {"correlation_id": str(call_id), "created_by": access.actor}
    first = extract_audio.using(**stage_options(extract_audio, call_id), **signed)
    await first.enqueue(connection=db, call_id=call_id, raw_path=paths.raw(call_id))


async def _rows(access: Access, name: str, **parameters: Any) -> Rows:
    async with access.session() as db, db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(sql(name), {"org": access.whose, **parameters})
        return await cursor.fetchall()


async def _file(call_id: UUID, access: Access, path: str, kind: str) -> StreamingResponse:
    await show(call_id, access)
    try:
        pieces = await storage().stream(path)
    except NotStored:
        raise HTTPException(404, f"file {path} does not exist yet; see the status of the call") from None
    return StreamingResponse(pieces, media_type=kind)
