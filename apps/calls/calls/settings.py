"""Settings: environment variables with the prefix CALLS_."""

from __future__ import annotations

import os

from posthouse import Fail

PREFIX = "CALLS_"
LOCAL = "local"
SPEECHKIT = "speechkit"


def setting(name: str, default: str = "", *other_names: str) -> str:
    """Return a setting. ``other_names``: variables that are read if it is not set."""
    names = (PREFIX + name, *other_names)
    return next((value for each in names if (value := os.environ.get(each))), default)


def _speechkit_setting(name: str, default: str = "") -> str:
    """Return a setting of SpeechKit: CALLS_SPEECHKIT_…, or SPEECHKIT_… as other programs read it."""
    return setting(f"SPEECHKIT_{name}", default, f"SPEECHKIT_{name}")


def _number(name: str, default: str) -> float:
    text = setting(name, default)
    try:
        return float(text)
    except ValueError:
        raise Fail(f"invalid CALLS_{name} {text!r}: expected a number") from None


def max_upload_bytes() -> int:
    """Return the size limit of recordings; the default is the limit of SpeechKit."""
    return int(setting("MAX_UPLOAD_BYTES", str(1024**3)))


def provider() -> str:
    """Return the speech recognizer: ``local`` or ``speechkit``."""
    return setting("PROVIDER", LOCAL)


def language() -> str:
    """Return the language that is expected in recordings, such as ``en-US``."""
    return setting("LANGUAGE", "en-US")


def language_code() -> str:
    """Return the language without its region, such as ``en``."""
    return language().replace("_", "-").partition("-")[0].lower()


def model() -> str:
    """Return the Whisper model of the local recognizer: a folder or a name; empty for the one installed."""
    return setting("MODEL")


def vad_model() -> str:
    """Return the file of the model that finds speech; empty for the one installed."""
    return setting("VAD_MODEL")


def min_confidence() -> float:
    """Return the confidence below which a call has the status ``low_confidence``."""
    return _number("MIN_CONFIDENCE", "0.55")


def failed_upload_days() -> float:
    """Return after how many days the uploads of failed and canceled calls are deleted."""
    return _number("FAILED_DAYS", "30")


def speechkit_url() -> str:
    return _speechkit_setting("URL", "https://transcribe.api.cloud.yandex.net")


def operations_url() -> str:
    """Return the URL of the operations API of SpeechKit, which is another host."""
    return _speechkit_setting("OPERATIONS_URL", "https://operation.api.cloud.yandex.net")


def speechkit_key() -> str:
    return _speechkit_setting("KEY")


def speechkit_timeout() -> float:
    """Return the timeout of a request to SpeechKit in seconds."""
    return float(_speechkit_setting("TIMEOUT_SECONDS", "30"))


def poll_interval_seconds(default: float) -> float:
    return float(setting("POLL_INTERVAL_MS", str(default * 1000), "SPEECHKIT_POLL_INTERVAL_MS")) / 1000


def poll_limit(default: int) -> int:
    """Return the maximum number of polls of an operation."""
    return int(setting("POLL_LIMIT", str(default)))


def poll_deadline(default: str) -> str:
    """Return the maximum time of polling, such as ``4h``."""
    return setting("POLL_DEADLINE", default)
