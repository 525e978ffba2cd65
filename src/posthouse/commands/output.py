"""Output of a command: the tail that is stored, and the text that is passed on while it runs."""

from __future__ import annotations

import codecs

from posthouse.core.payload import escape

LIVE_LIMIT = 64 * 1024


class Tail:
    """The last ``limit`` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        self._data += data[-self._limit :] if self._limit else b""
        if len(self._data) > 2 * self._limit:
            self._trim()

    def _trim(self) -> None:
        del self._data[: max(0, len(self._data) - self._limit)]

    @property
    def dropped(self) -> int:
        """The number of bytes before the tail."""
        return max(0, self._total - self._limit)

    def bytes(self) -> bytes:
        self._trim()
        return bytes(self._data)

    def text(self) -> str:
        return decoded(_whole_start(self.bytes()) if self.dropped else self.bytes())


def decoded(data: bytes) -> str:
    """Decode arbitrary bytes to text that can be stored and shown."""
    return escape(data.decode("utf-8", "replace"))


def _whole_start(data: bytes) -> bytes:
    """Remove the rest of a character that was cut."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        cut += 1
    return data[cut:]


class Live:
    """Collects bytes between two deliveries. Of a large amount only the end is passed on."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = Tail(LIVE_LIMIT)

    def feed(self, data: bytes) -> None:
        self._tail.feed(data)

    def take(self, *, final: bool = False) -> str:
        """Return the text since the last call, in whole characters."""
        tail, self._tail = self._tail, Tail(LIVE_LIMIT)
        if tail.dropped:
            note = f"{self._decoder.decode(b'', True)}\n[{tail.dropped:,} bytes omitted]\n"
            self._decoder.reset()
            return note + escape(self._decoder.decode(_whole_start(tail.bytes()), final))
        return escape(self._decoder.decode(tail.bytes(), final))
