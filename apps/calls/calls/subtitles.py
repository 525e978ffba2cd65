"""Transcripts as subtitles: SubRip (SRT) and WebVTT."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from calls.transcript import Phrase, Transcript, Word

MAX_CHARACTERS = 84
"""Two lines of 42 characters."""
MAX_SECONDS = 7.0


class Cue(NamedTuple):
    start: float
    end: float
    speaker: str
    text: str


def srt(transcript: Transcript) -> str:
    """Return subtitles in SubRip format."""
    blocks = [
        f"{number}\n{_time(cue.start, ',')} --> {_time(cue.end, ',')}\nSpeaker {cue.speaker}: {cue.text}\n"
        for number, cue in enumerate(cues(transcript), 1)
    ]
    return "\n".join(blocks)


def vtt(transcript: Transcript) -> str:
    """Return subtitles in WebVTT format, with the speaker as the voice of each cue."""
    blocks = [
        f"{_time(cue.start, '.')} --> {_time(cue.end, '.')}\n"
        f"<v Speaker {escape(cue.speaker, quote=False)}>{escape(cue.text, quote=False)}</v>\n"
        for cue in cues(transcript)
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def cues(transcript: Transcript) -> list[Cue]:
    """Return the phrases, with long ones split between words."""
    found = [
        Cue(words[0].start, max(words[-1].end, words[0].start), phrase.speaker, _text(words))
        for phrase in transcript.phrases
        for words in _split(phrase)
    ]
    return sorted((cue for cue in found if cue.text), key=lambda cue: (cue.start, cue.speaker))


def _split(phrase: Phrase) -> Iterator[list[Word]]:
    part: list[Word] = []
    for word in phrase.words:
        is_long = part and len(_text([*part, word])) > MAX_CHARACTERS
        if is_long or (part and word.end - part[0].start > MAX_SECONDS):
            yield part
            part = []
        part.append(word)
    if part:
        yield part


def _text(words: list[Word]) -> str:
    return " ".join(" ".join(word.text for word in words).split())


def _time(seconds: float, separator: str) -> str:
    milliseconds = round(1000 * seconds)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{separator}{rest % 1000:03}"
