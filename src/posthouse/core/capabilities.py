"""Validation of what a worker reports about itself: capabilities, name and metadata.

Jobs require or prefer capabilities, such as ``gpu`` or ``codec:h264``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from posthouse.errors import ConfigurationError

MAX_BYTES = 10_240
"""Maximum size of all capabilities together, and of the metadata: every query of the workers reads both."""

_NAME = re.compile(r"[^\x00-\x1f\x7f]{0,200}")
_WORD = re.compile(r"[A-Za-z0-9_.:@/+-]{1,100}")


def capability_words(text: str) -> list[str]:
    """Parse a comma-separated list into distinct capabilities in order."""
    words = sorted({word.strip() for word in text.split(",") if word.strip()})
    for word in words:
        check_capability(word)
    if len(",".join(words)) > MAX_BYTES:
        raise ConfigurationError(f"the capabilities of a worker exceed {MAX_BYTES:,} bytes in total")
    return words


def check_capability(word: str) -> None:
    if not _WORD.fullmatch(word):
        raise ConfigurationError(
            "a capability must be a word such as gpu or codec:h264, up to 100 letters, digits and _.:@/+-, "
            f"not {word[:200]!r}"
        )


def checked_facts(text: str) -> dict[str, Any]:
    """Parse the worker's metadata, a JSON object in the settings."""
    try:
        facts = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigurationError(f"worker_metadata is not valid JSON: {error}") from None
    if not isinstance(facts, dict):
        raise ConfigurationError('worker_metadata must be a JSON object such as {"pod": "a-1"}')
    size = len(json.dumps(facts, ensure_ascii=False).encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise ConfigurationError(f"worker_metadata must have at most {MAX_BYTES:,} bytes, not {size:,}")
    return facts


def checked_worker_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"worker_name must be one line of at most 200 characters, not {name!r}")
    return name
