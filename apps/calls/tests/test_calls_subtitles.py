"""Exports as subtitles."""

from calls.subtitles import MAX_CHARACTERS, MAX_SECONDS, cues, srt, vtt
from calls.transcript import Phrase, Transcript, Word


def phrase(speaker, start, text, pace=0.5):
    words = [
        Word(text=word, start=start + at * pace, end=start + (at + 1) * pace)
        for at, word in enumerate(text.split())
    ]
    return Phrase(speaker=speaker, text=text, words=words)


SHORT = Transcript(phrases=[phrase("1", 3599.5, "Is <b> a tag?"), phrase("2", 3600.25, "Yes & no")])


def test_subrip_has_numbers_commas_and_speakers():
    assert srt(SHORT) == (
        "1\n00:59:59,500 --> 01:00:01,500\nSpeaker 1: Is <b> a tag?\n\n"
        "2\n01:00:00,250 --> 01:00:01,750\nSpeaker 2: Yes & no\n"
    )


def test_webvtt_has_voices_and_escaped_text():
    assert vtt(SHORT) == (
        "WEBVTT\n\n00:59:59.500 --> 01:00:01.500\n<v Speaker 1>Is &lt;b&gt; a tag?</v>\n\n"
        "01:00:00.250 --> 01:00:01.750\n<v Speaker 2>Yes &amp; no</v>\n"
    )


def test_long_phrases_are_split_between_words_and_lose_none():
    said = " ".join(f"word{number}" for number in range(60))
    parts = cues(Transcript(phrases=[phrase("1", 0, said, pace=0.3)]))
    assert " ".join(cue.text for cue in parts) == said
    assert max(len(cue.text) for cue in parts) <= MAX_CHARACTERS
    assert max(cue.end - cue.start for cue in parts) <= MAX_SECONDS + 0.001


def test_a_silent_call_has_no_cues():
    silent = Transcript(phrases=[])
    assert (srt(silent), vtt(silent)) == ("", "WEBVTT\n")
