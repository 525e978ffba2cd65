"""The transcript of a call, independent of the recognizer."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from math import exp, log

from pydantic import BaseModel, computed_field

MIN_WORDS = 5
"""A speaker with fewer words has no confidence of their own: single words say little."""
_MIN_CONFIDENCE = 1e-3


class Word(BaseModel):
    text: str
    start: float
    end: float
    confidence: float | None = None
    """Probability that the word was said, 0 to 1; None if the recognizer does not report it."""


class Phrase(BaseModel):
    speaker: str
    """Channel of the recording, starting at 1."""
    text: str
    words: list[Word]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def confidence(self) -> float | None:
        return mean_confidence(self.words)


class Transcript(BaseModel):
    language: str | None = None
    """Language that the recognizer was told to expect."""
    phrases: list[Phrase]
    """Phrases, ordered by start time."""
    unread_speakers: list[str] = []
    """Speakers of whose speech the recognizer read less than half."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def confidence(self) -> float | None:
        """Confidence of the speaker who was recognized worst; 0 if speech was not read."""
        if self.unread_speakers:
            return 0.0
        spoken = [self.words_of(speaker) for speaker in self.speakers]
        long = [words for words in spoken if len(words) >= MIN_WORDS]
        confidences = [mean_confidence(words) for words in long or [list(chain.from_iterable(spoken))]]
        return min((each for each in confidences if each is not None), default=None)

    @property
    def speakers(self) -> list[str]:
        return sorted({phrase.speaker for phrase in self.phrases})

    def words_of(self, speaker: str) -> list[Word]:
        return [word for phrase in self.phrases if phrase.speaker == speaker for word in phrase.words]


def mean_confidence(words: Iterable[Word]) -> float | None:
    """Return the geometric mean of the words' confidences; None without any.

    The arithmetic mean hardly falls when a third of the words are guesses.
    """
    logs = [log(max(word.confidence, _MIN_CONFIDENCE)) for word in words if word.confidence is not None]
    return round(exp(sum(logs) / len(logs)), 3) if logs else None
