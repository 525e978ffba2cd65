"""Routes of the results of a call: audio, transcript, figures and exports."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.encoders import jsonable_encoder

from calls import paths, subtitles
from calls.requests import CallId, Reader, get_call_or_404, get_figures_or_404
from calls.storage import NotStored, storage
from calls.transcript import Transcript
from posthouse.server import file_route, stored_file

MEDIA_TYPES = {"srt": "application/x-subrip", "vtt": "text/vtt", "json": "application/json"}
Format = Annotated[Literal["srt", "vtt", "json"], Path(description="Format of the export.")]
router = APIRouter()


@file_route(router, "/{call_id}/audio")
async def download_audio(call_id: CallId, request: Request, access: Reader) -> Response:
    """Download the audio of a call as FLAC. Supports HTTP Range."""
    await get_call_or_404(access, call_id)
    return await stored_file(request, storage(), paths.audio(call_id), "audio/flac")


@router.get("/{call_id}/transcript")
async def get_transcript(call_id: CallId, request: Request, access: Reader) -> Response:
    """Get the transcript of a call.

    Phrases with their speaker, and the time and confidence of each word.
    """
    await get_call_or_404(access, call_id)
    return await stored_file(request, storage(), paths.transcript(call_id), "application/json")


@router.get("/{call_id}/analysis")
async def get_analysis(call_id: CallId, access: Reader) -> dict[str, Any]:
    """Get the analysis of a call.

    Talk time, silence, speed, confidence and keywords.
    """
    return await get_figures_or_404(access, call_id)


@router.get("/{call_id}/export.{file_format}")
async def export_call(call_id: CallId, file_format: Format, access: Reader) -> Response:
    """Download a call as subtitles or as JSON.

    `srt` and `vtt`: the transcript as subtitles. `json`: the call with its figures and its transcript.
    """
    call, figures = await get_call_or_404(access, call_id), await get_figures_or_404(access, call_id)
    transcript = await _load_transcript(call_id)
    if file_format == "json":
        whole = {"call": call, "analysis": figures, "transcript": transcript.model_dump()}
        content = json.dumps(jsonable_encoder(whole), ensure_ascii=False, indent=2)
    else:
        content = {"srt": subtitles.srt, "vtt": subtitles.vtt}[file_format](transcript)
    disposition = f'attachment; filename="{_file_name(call["title"])}.{file_format}"'
    headers = {"Content-Disposition": disposition}
    return Response(content, media_type=f"{MEDIA_TYPES[file_format]}; charset=utf-8", headers=headers)


async def _load_transcript(call_id: UUID) -> Transcript:
    try:
        content = await asyncio.to_thread(storage().read, paths.transcript(call_id))
    except NotStored:
        raise HTTPException(404, f"call {call_id} has no transcript; see its status") from None
    return Transcript.model_validate_json(content)


def _file_name(title: str) -> str:
    """Return a title as the name of a file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", title.rpartition(".")[0] or title).strip("-")[:80] or "call"
