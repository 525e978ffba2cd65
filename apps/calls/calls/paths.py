"""Where each file of a call is. The same for every attempt, so that one finds what another has left."""

from __future__ import annotations

from uuid import UUID


def raw(call_id: UUID) -> str:
    """The recording as it was uploaded, until its sound is extracted."""
    return f"calls/{call_id}/raw"


def audio(call_id: UUID) -> str:
    return f"calls/{call_id}/audio.flac"


def ogg(call_id: UUID) -> str:
    """The same for the recogniser, until it has answered."""
    return f"calls/{call_id}/speech.ogg"


def transcript(call_id: UUID) -> str:
    return f"calls/{call_id}/transcript.json"


def recognised(call_id: UUID) -> str:
    """What the local recogniser answers, until it was fetched."""
    return f"calls/{call_id}/recognised.json"
