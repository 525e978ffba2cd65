"""The transcript of a call, independent of the recognizer."""

from __future__ import annotations

from pydantic import BaseModel


class Word(BaseModel):
    text: str
    start: float
    end: float


class Phrase(BaseModel):
    speaker: str
    """Channel of the recording, starting at 1."""
    text: str
    words: list[Word]


class Transcript(BaseModel):
    phrases: list[Phrase]
    """Phrases, ordered by start time."""

    @property
    def speakers(self) -> list[str]:
        return sorted({phrase.speaker for phrase in self.phrases})

    def said_by(self, speaker: str) -> list[Word]:
        return [word for phrase in self.phrases if phrase.speaker == speaker for word in phrase.words]
