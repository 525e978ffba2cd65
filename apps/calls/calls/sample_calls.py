"""Synthetic calls: a known script, spoken by two voices of espeak-ng."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

AGENT, CUSTOMER = 1, 2
Line = tuple[int, str]
"""The channel of the speaker, and the text."""
VOICES = {AGENT: "en-us", CUSTOMER: "en-gb+f3"}
WORDS_PER_MINUTE = "150"
PAUSE_SECONDS = 0.6
_WORD = re.compile(r"[a-z']+")

SCRIPTS: list[list[Line]] = [
    [
        (AGENT, "Good morning, this is the delivery office. How can I help you today?"),
        (CUSTOMER, "Hello, my parcel was promised for Monday, and the parcel is still not here."),
        (AGENT, "I am sorry about that. Let me look at the parcel in our system."),
        (CUSTOMER, "Thank you. It is a birthday present for my daughter."),
        (AGENT, "The driver has the parcel in the van, and you will have it this afternoon."),
        (CUSTOMER, "That is wonderful news, thank you very much for your help."),
    ],
    [
        (AGENT, "Welcome to customer support. What can I do for you?"),
        (CUSTOMER, "The invoice for last month is wrong. I paid the invoice twice."),
        (AGENT, "I can see both payments. We will return the second payment to your account."),
        (CUSTOMER, "How long will it take until the money is in my account?"),
        (AGENT, "The payment will be in your account within three working days."),
        (CUSTOMER, "Perfect. Please send me a new invoice as well."),
    ],
]


class EspeakMissing(Exception):
    """espeak-ng is not installed."""


def synthesize_call(target: Path, script: Sequence[Line], voices: Mapping[int, str] = VOICES) -> Path:
    """Write a recording with one channel per speaker."""
    lines = [(speaker, *_synthesize(text, voices[speaker])) for speaker, text in script]
    rate = lines[0][2]
    pause = int(PAUSE_SECONDS * rate)
    samples_of_call = np.zeros((sum(len(samples) + pause for _, samples, _ in lines), 2), np.int16)
    position = 0
    for speaker, samples, _ in lines:
        samples_of_call[position : position + len(samples), speaker - 1] = samples
        position += len(samples) + pause
    with wave.open(str(target), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples_of_call.tobytes())
    return target


def word_error_rate(script: Sequence[Line], recognized: dict[str, str]) -> float:
    """Return the word error rate over both channels."""
    errors = words = 0
    for speaker in VOICES:
        expected = split_words(" ".join(text for name, text in script if name == speaker))
        errors += _distance(expected, split_words(recognized.get(str(speaker), "")))
        words += len(expected)
    return errors / words


def split_words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def _distance(expected: list[str], recognized: list[str]) -> int:
    """Return the Levenshtein distance over words."""
    row = list(range(len(recognized) + 1))
    for row_index, word in enumerate(expected, 1):
        before, row[0] = row[0], row_index
        for index, other in enumerate(recognized, 1):
            before, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, before + (word != other))
    return row[-1]


def _synthesize(text: str, voice: str) -> tuple[NDArray[np.int16], int]:
    program = shutil.which("espeak-ng")
    if program is None:
        raise EspeakMissing(
            "espeak-ng, which generates the speech, is not installed; run: apt-get install espeak-ng"
        )
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "line.wav"
        command = [program, "-v", voice, "-s", WORDS_PER_MINUTE, "-w", str(target), text]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own command
        with wave.open(str(target)) as file:
            return np.frombuffer(file.readframes(file.getnframes()), np.int16), file.getframerate()
