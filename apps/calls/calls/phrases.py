"""Phrases of a transcript as columns, for the search."""

from __future__ import annotations

from typing import Any

from calls.transcript import Transcript


def phrase_columns(transcript: Transcript) -> dict[str, list[Any]]:
    """Return the phrases as arrays, in order."""
    phrases = transcript.phrases
    return {
        "speakers": [phrase.speaker for phrase in phrases],
        "starts": [phrase.words[0].start for phrase in phrases],
        "ends": [phrase.words[-1].end for phrase in phrases],
        "texts": [phrase.text.replace("\0", "") for phrase in phrases],
    }
