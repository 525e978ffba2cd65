"""The figures of a call, from transcripts that are small enough to count by hand."""

import pytest

from calls.analysis import compute_figures
from calls.sample_calls import AGENT, CUSTOMER, word_error_rate
from calls.speechkit import MalformedResponse, OperationFailed, read_operation
from calls.transcript import Phrase, Transcript, Word


def phrase(speaker, start, text, pace=0.5):
    words = text.split()
    timed = [
        Word(text=word, start=start + index * pace, end=start + (index + 1) * pace)
        for index, word in enumerate(words)
    ]
    return Phrase(speaker=speaker, text=text, words=timed)


def test_talk_silence_speed_and_turns():
    transcript = Transcript(
        phrases=[
            phrase("1", 1, "where is the parcel"),
            phrase("2", 2.5, "which parcel do you mean"),
            phrase("1", 8, "the red one"),
        ]
    )
    figures = compute_figures(transcript, 12)
    assert figures["talk_seconds"] == 5.5
    assert figures["silence_seconds"] == 6.5
    assert figures["silence_share"] == 0.542
    assert figures["longest_silence_seconds"] == 3
    assert figures["overlap_seconds"] == 0.5
    assert figures["speakers"]["1"] == {
        "talk_seconds": 3.5,
        "talk_share": 0.583,
        "turns": 2,
        "longest_turn_seconds": 2,
        "words": 7,
        "words_per_minute": 120,
        "confidence": None,
    }
    assert figures["keywords"] == [
        {"word": "parcel", "count": 2}, {"word": "mean", "count": 1}, {"word": "red", "count": 1},
    ]  # fmt: skip
    assert compute_figures(transcript, 12) == figures


def test_figures_of_a_silent_call():
    figures = compute_figures(Transcript(phrases=[]), 3)
    assert (figures["talk_seconds"], figures["silence_seconds"], figures["longest_silence_seconds"]) == (
        0,
        3,
        3,
    )
    assert (figures["speakers"], figures["keywords"]) == ({}, [])
    assert compute_figures(Transcript(phrases=[]), 0)["silence_share"] == 0


def test_short_pauses_belong_to_a_turn():
    transcript = Transcript(
        phrases=[phrase("1", 0, "one two"), phrase("1", 1.9, "three"), phrase("1", 4, "four")]
    )
    speaker = compute_figures(transcript, 5)["speakers"]["1"]
    assert (speaker["turns"], speaker["talk_seconds"]) == (2, 2.9)


def test_the_word_error_rate_counts_wrong_missing_and_additional_words():
    script = [(AGENT, "Where is the parcel?"), (CUSTOMER, "It's on its way.")]
    assert word_error_rate(script, {"1": "where is the parcel", "2": "It\u2019s on its way!"}) == 0
    assert word_error_rate(script, {"1": "where was the", "2": "it's well on its way"}) == 3 / 8
    assert word_error_rate(script, {}) == 1


def test_operations_are_read_as_the_protocol_has_them():
    pending = read_operation(b'{"id": "a", "done": false, "createdAt": "2026-11-16T10:00:00Z"}')
    assert not pending.done
    with pytest.raises(MalformedResponse, match=r"expected a value like 1\.5s"):
        read_operation(
            b'{"id": "a", "done": true, "response": {"chunks": [{"alternatives": '
            b'[{"text": "a", "words": [{"word": "a", "startTime": 1, "endTime": "2s"}]}]}]}}'
        )
    failed = read_operation(b'{"id": "a", "done": true, "error": {"code": 3, "message": "too long"}}')
    with pytest.raises(OperationFailed, match="code 3: too long"):
        failed.transcript()
    assert read_operation(b'{"id": "a", "done": true, "response": {}}').transcript().phrases == []
