"""Storage paths of a call. They are the same in every attempt, so that existing files are found."""

from __future__ import annotations

import re
from uuid import UUID

CALLS = "calls"
_FOLDER = re.compile(rf"{CALLS}/([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})/.*")


def folder(call_id: UUID) -> str:
    return f"{CALLS}/{call_id}"


def raw(call_id: UUID) -> str:
    """Return the path of the uploaded recording, which is deleted after the extraction."""
    return f"{CALLS}/{call_id}/raw"


def audio(call_id: UUID) -> str:
    return f"{CALLS}/{call_id}/audio.flac"


def ogg(call_id: UUID) -> str:
    """Return the path of the recognizer's input, which is deleted after the recognition."""
    return f"{CALLS}/{call_id}/speech.ogg"


def transcript(call_id: UUID) -> str:
    return f"{CALLS}/{call_id}/transcript.json"


def recognized(call_id: UUID) -> str:
    """Return the path of the local recognizer's result, which is deleted after it was read."""
    return f"{CALLS}/{call_id}/recognized.json"


def temporary_files(call_id: UUID) -> list[str]:
    """Return the files that are deleted when a call is done."""
    return [raw(call_id), ogg(call_id), recognized(call_id)]


def call_id_of(path: str) -> UUID | None:
    """Return the call to which a file belongs."""
    match = _FOLDER.fullmatch(path)
    return UUID(match[1]) if match else None
