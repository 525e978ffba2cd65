"""Figures of a call: talk time and speed per speaker, silence, and keywords."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from calls.transcript import Transcript, Word, confidence_of

PAUSE = 1.0
"""Longest pause in seconds within one turn of a speaker."""
KEYWORDS = 10
_TERM = re.compile(r"[^\W\d_]{3,}(?:['-][^\W\d_]+)*")

Span = tuple[float, float]


def analyse(transcript: Transcript, duration: float) -> dict[str, Any]:
    """Return the figures of a transcript. Deterministic."""
    turns = {speaker: spans(transcript.said_by(speaker)) for speaker in transcript.speakers}
    talk = {speaker: length(of_one) for speaker, of_one in turns.items()}
    talked = union([span for of_one in turns.values() for span in of_one])
    silence = max(0.0, duration - length(talked))
    return {
        "duration_seconds": round(duration, 2),
        "talk_seconds": round(length(talked), 2),
        "silence_seconds": round(silence, 2),
        "silence_share": _share(silence, duration),
        "longest_silence_seconds": round(longest_gap(talked, duration), 2),
        "overlap_seconds": round(sum(talk.values()) - length(talked), 2),
        "speakers": {
            speaker: _speaker(transcript.said_by(speaker), turns[speaker], sum(talk.values()))
            for speaker in transcript.speakers
        },
        "keywords": keywords(transcript),
        "confidence": transcript.confidence,
    }


def _speaker(words: list[Word], turns: list[Span], total: float) -> dict[str, Any]:
    talk = length(turns)
    return {
        "talk_seconds": round(talk, 2),
        "talk_share": _share(talk, total),
        "turns": len(turns),
        "longest_turn_seconds": round(max(end - start for start, end in turns), 2),
        "words": len(words),
        "words_per_minute": round(60 * len(words) / talk) if talk else 0,
        "confidence": confidence_of(words),
    }


def spans(words: list[Word]) -> list[Span]:
    """Return the turns of one speaker."""
    return union([(word.start, word.end) for word in words], PAUSE)


def union(found: list[Span], gap: float = 0.0) -> list[Span]:
    """Merge spans that overlap or are at most ``gap`` apart."""
    joined: list[Span] = []
    for start, end in sorted(found):
        if joined and start <= joined[-1][1] + gap:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def length(found: list[Span]) -> float:
    return sum(end - start for start, end in found)


def longest_gap(talked: list[Span], duration: float) -> float:
    edges = [(0.0, 0.0), *talked, (duration, duration)]
    return max(0.0, *(after[0] - before[1] for before, after in pairwise(edges)))


def keywords(transcript: Transcript) -> list[dict[str, Any]]:
    """Return the most frequent words that are not stop words; ties in order of appearance."""
    said = " ".join(phrase.text for phrase in transcript.phrases).lower().replace("\u2019", "'")
    counted = Counter(term for term in _TERM.findall(said) if term not in stopwords())
    return [{"word": term, "count": count} for term, count in counted.most_common(KEYWORDS)]


@cache
def stopwords() -> frozenset[str]:
    """Return English stop words."""
    return frozenset(files("calls").joinpath("stopwords.txt").read_text().split())


def _share(part: float, whole: float) -> float:
    return round(part / whole, 3) if whole else 0.0
