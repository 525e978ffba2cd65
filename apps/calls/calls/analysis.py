"""Figures of a call: talk time and speed per speaker, silence, and keywords."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from calls.transcript import Transcript, Word, mean_confidence

MAX_PAUSE_SECONDS = 1.0
"""Longest pause in seconds within one turn of a speaker."""
MAX_KEYWORDS = 10
_TERM = re.compile(r"[^\W\d_]{3,}(?:['-][^\W\d_]+)*")

Span = tuple[float, float]


def compute_figures(transcript: Transcript, duration: float) -> dict[str, Any]:
    """Return the figures of a transcript. Deterministic."""
    turns = {speaker: speaker_turns(transcript.words_of(speaker)) for speaker in transcript.speakers}
    talk = {speaker: total_length(spans_of_speaker) for speaker, spans_of_speaker in turns.items()}
    talk_spans = merge_spans([span for spans_of_speaker in turns.values() for span in spans_of_speaker])
    silence = max(0.0, duration - total_length(talk_spans))
    return {
        "duration_seconds": round(duration, 2),
        "talk_seconds": round(total_length(talk_spans), 2),
        "silence_seconds": round(silence, 2),
        "silence_share": _share(silence, duration),
        "longest_silence_seconds": round(longest_gap(talk_spans, duration), 2),
        "overlap_seconds": round(sum(talk.values()) - total_length(talk_spans), 2),
        "speakers": {
            speaker: _speaker(transcript.words_of(speaker), turns[speaker], sum(talk.values()))
            for speaker in transcript.speakers
        },
        "keywords": find_keywords(transcript),
        "confidence": transcript.confidence,
    }


def _speaker(words: list[Word], turns: list[Span], total: float) -> dict[str, Any]:
    talk = total_length(turns)
    return {
        "talk_seconds": round(talk, 2),
        "talk_share": _share(talk, total),
        "turns": len(turns),
        "longest_turn_seconds": round(max(end - start for start, end in turns), 2),
        "words": len(words),
        "words_per_minute": round(60 * len(words) / talk) if talk else 0,
        "confidence": mean_confidence(words),
    }


def speaker_turns(words: list[Word]) -> list[Span]:
    """Return the turns of one speaker."""
    return merge_spans([(word.start, word.end) for word in words], MAX_PAUSE_SECONDS)


def merge_spans(spans: list[Span], gap: float = 0.0) -> list[Span]:
    """Merge spans that overlap or are at most ``gap`` apart."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1] + gap:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def total_length(spans: list[Span]) -> float:
    return sum(end - start for start, end in spans)


def longest_gap(talk_spans: list[Span], duration: float) -> float:
    edges = [(0.0, 0.0), *talk_spans, (duration, duration)]
    return max(0.0, *(after[0] - before[1] for before, after in pairwise(edges)))


def find_keywords(transcript: Transcript) -> list[dict[str, Any]]:
    """Return the most frequent words that are not stop words; ties in order of appearance."""
    text = " ".join(phrase.text for phrase in transcript.phrases).lower().replace("\u2019", "'")
    counts = Counter(term for term in _TERM.findall(text) if term not in load_stopwords())
    return [{"word": term, "count": count} for term, count in counts.most_common(MAX_KEYWORDS)]


@cache
def load_stopwords() -> frozenset[str]:
    """Return English stop words."""
    return frozenset(files("calls").joinpath("stopwords.txt").read_text().split())


def _share(part: float, whole: float) -> float:
    return round(part / whole, 3) if whole else 0.0
