"""What a worker says of itself: what it can do, as words that jobs require or prefer (``gpu``,
``codec:h264``), its name, and what else is to be kept of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from posthouse.errors import ConfigurationError

MOST_BYTES = 10_240
"""Of all capabilities together, and of metadata: every look at the workers reads them."""

_NAME = re.compile(r"[^\x00-\x1f\x7f]{0,200}")
_WORD = re.compile(r"[A-Za-z0-9_.:@/+-]{1,100}")


def capability_words(text: str) -> list[str]:
    """The words of a list with commas, in order and once each."""
    words = sorted({word.strip() for word in text.split(",") if word.strip()})
    for word in words:
        check_capability(word)
    if len(",".join(words)) > MOST_BYTES:
        raise ConfigurationError(f"the capabilities of a worker are at most {MOST_BYTES:,} bytes together")
    return words


def check_capability(word: str) -> None:
    if not _WORD.fullmatch(word):
        raise ConfigurationError(
            "a capability is a word like gpu or codec:h264, of up to 100 letters, digits and _.:@/+-, "
            f"not {word[:200]!r}"
        )


def checked_facts(text: str) -> dict[str, Any]:
    """A worker's metadata, from the JSON object that the settings hold."""
    try:
        facts = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigurationError(f"worker_metadata is not valid JSON: {error}") from None
    if not isinstance(facts, dict):
        raise ConfigurationError('worker_metadata is a JSON object like {"pod": "a-1"}')
    size = len(json.dumps(facts, ensure_ascii=False).encode(errors="surrogatepass"))
    if size > MOST_BYTES:
        raise ConfigurationError(f"worker_metadata is at most {MOST_BYTES:,} bytes, not {size:,}")
    return facts


def checked_worker_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"worker_name is a text of at most 200 characters in one line, not {name!r}")
    return name
