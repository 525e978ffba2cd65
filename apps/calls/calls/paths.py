"""Storage paths of a call. They are the same in every attempt, so that existing files are found."""

from __future__ import annotations

from uuid import UUID


def raw(call_id: UUID) -> str:
    """Return the path of the uploaded recording, which is deleted after the extraction."""
    return f"calls/{call_id}/raw"


def audio(call_id: UUID) -> str:
    return f"calls/{call_id}/audio.flac"


def ogg(call_id: UUID) -> str:
    """Return the path of the recognizer's input, which is deleted after the recognition."""
    return f"calls/{call_id}/speech.ogg"


def transcript(call_id: UUID) -> str:
    return f"calls/{call_id}/transcript.json"


def recognized(call_id: UUID) -> str:
    """Return the path of the local recognizer's result, which is deleted after it was read."""
    return f"calls/{call_id}/recognized.json"
