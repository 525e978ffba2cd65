"""What a command writes: the tail that is kept, and the text that is passed on while it runs."""

from __future__ import annotations

import codecs

from posthouse.core.payload import escape

LIVE_LIMIT = 64 * 1024


class Tail:
    """The last ``limit`` bytes."""

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
        """How many bytes came before the tail."""
        return max(0, self._total - self._limit)

    def bytes(self) -> bytes:
        self._trim()
        return bytes(self._data)

    def text(self) -> str:
        return decoded(_whole_start(self.bytes()) if self.dropped else self.bytes())


def decoded(data: bytes) -> str:
    """Text that can be stored and shown, whatever the bytes are."""
    return escape(data.decode("utf-8", "replace"))


def _whole_start(data: bytes) -> bytes:
    """Without the rest of a character that was cut."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte that continues
        cut += 1
    return data[cut:]


class Live:
    """Gathers bytes between two deliveries. Of a flood only the end of each is passed on."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = Tail(LIVE_LIMIT)

    def feed(self, data: bytes) -> None:
        self._tail.feed(data)

    def take(self, *, final: bool = False) -> str:
        """The text since the last time, in whole characters."""
        tail, self._tail = self._tail, Tail(LIVE_LIMIT)
        if tail.dropped:
            note = f"{self._decoder.decode(b'', True)}\n[{tail.dropped:,} bytes left out]\n"
            self._decoder.reset()
            return note + escape(self._decoder.decode(_whole_start(tail.bytes()), final))
        return escape(self._decoder.decode(tail.bytes(), final))
