"""A TCP proxy in front of Postgres that breaks the wire on demand.

    with TcpProxy.for_url(url) as proxy:
        connect(proxy.url_for(url))
        proxy.drop_reply_to(b"posthouse.enqueue")   # it takes effect, but the reply is lost
        ...
        assert proxy.swallowed == 1

Everything but ``url_for`` may be called from any thread. Encryption is declined, so that the proxy can
read along; a request or reply is recognised by bytes that it contains (a prepared statement carries its
text only when it is parsed: look for a parameter instead).
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Direction = Literal["request", "reply"]
Predicate = Callable[[Direction, bytes], bool]

_ENCRYPTION_REQUESTS = {80877103, 80877104}  # SSLRequest, GSSENCRequest


class TcpProxy:
    def __init__(self, target_host: str, target_port: int) -> None:
        self.target = (target_host, target_port)
        self.swallowed = 0  # replies that were kept from a client
        self.cuts = 0  # connections that were dropped by a fault
        self.accepted = 0
        self._rules: list[_Rule] = []
        self._links: set[_Link] = set()
        self._lock = threading.RLock()
        self._open = threading.Event()
        self._open.set()
        self._refusing = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        _set_nodelay(self._listener)
        self.host, self.port = self._listener.getsockname()
        self._acceptor = threading.Thread(target=self._accept, name="wire", daemon=True)
        self._acceptor.start()

    @classmethod
    def for_url(cls, url: str) -> TcpProxy:
        """A proxy in front of the server that this URL names."""
        parts = conninfo_to_dict(url)
        return cls(str(parts.get("host") or "127.0.0.1"), int(parts.get("port") or 5432))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url_for(self, url: str) -> str:
        """The same URL, through the proxy."""
        return make_conninfo(url, host=self.host, port=self.port, sslmode="disable", gssencmode="disable")

    def disconnect_all(self) -> int:
        """Drop all connections now; returns how many. New ones are served."""
        with self._lock:
            links = list(self._links)
            self.cuts += len(links)
        for link in links:
            link.cut()
        return len(links)

    def disconnect_after(self, when: int | Predicate) -> None:
        """Drop one connection: once so many bytes of requests went through in all (the message that
        reaches the limit is torn there), or at the first chunk for which the predicate is true, which
        then does not go through."""
        self._add(_CutAfterBytes(when) if isinstance(when, int) else _CutWhen(when))

    def drop_reply_to(self, needle: bytes) -> None:
        """The next request with these bytes is carried out, but its reply never arrives."""
        self._add(_DropReply("request", needle))

    def drop_next_reply_containing(self, needle: bytes) -> None:
        """The next reply with these bytes never arrives; the server was done when it is dropped."""
        self._add(_DropReply("reply", needle))

    def pause(self) -> None:
        """Hold everything back, as a network that drops packets does, without an error."""
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    def refuse_connections(self) -> None:
        """Drop all connections, and new ones at once, as if Postgres were down."""
        self._refusing = True
        self.disconnect_all()

    def accept_connections(self) -> None:
        self._refusing = False

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.resume()
        self._acceptor.join(5)
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()
        for link in links:
            link.join(5)

    @property
    def connections(self) -> int:
        return len(self._links)

    def _add(self, rule: _Rule) -> None:
        with self._lock:
            self._rules.append(rule)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self._refusing:
                client.close()
                continue
            try:
                server = self._connect_upstream()
            except OSError:
                client.close()
                continue
            with self._lock:
                link = _Link(self, client, server)
                self._links.add(link)
            link.start()

    def _connect_upstream(self) -> socket.socket:
        host, port = self.target
        if not host.startswith("/"):
            return _set_nodelay(socket.create_connection((host, port), timeout=None))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{host}/.s.PGSQL.{port}")
        except OSError:
            server.close()
            raise
        return server

    def _inspect(self, link: _Link, direction: Direction, chunk: bytes) -> bytes | None:
        """What of this chunk goes on; None: the connection is to be dropped."""
        with self._lock:
            for rule in self._rules:
                passed = rule.inspect(link, direction, chunk)
                if passed is chunk:
                    continue
                if rule.done:
                    self._rules.remove(rule)
                    self.cuts += 1
                    self.swallowed += isinstance(rule, _DropReply)
                return passed
        return chunk


def _set_nodelay(end: socket.socket) -> socket.socket:
    """The same, but nothing waits in it for what was sent before to be acknowledged."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


class _Rule:
    done = False

    def inspect(self, link: _Link, direction: Direction, chunk: bytes) -> bytes | None:
        """The chunk itself: not concerned. Fewer bytes: these go on. None: drop the connection."""
        raise NotImplementedError


class _CutAfterBytes(_Rule):
    def __init__(self, limit: int) -> None:
        self._left = limit

    def inspect(self, link: _Link, direction: Direction, chunk: bytes) -> bytes | None:
        if direction == "reply":
            return chunk
        if len(chunk) < self._left:
            self._left -= len(chunk)
            return chunk
        self.done = True
        link.send_last(chunk[: self._left])
        return None


class _CutWhen(_Rule):
    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate

    def inspect(self, link: _Link, direction: Direction, chunk: bytes) -> bytes | None:
        if not self._predicate(direction, chunk):
            return chunk
        self.done = True
        return None


class _DropReply(_Rule):
    """Keeps back everything the server says from the match on, until it says that it is done."""

    def __init__(self, direction: Direction, needle: bytes) -> None:
        self._direction = direction
        self._needle = needle
        self._link: _Link | None = None
        self._kept = b""

    def inspect(self, link: _Link, direction: Direction, chunk: bytes) -> bytes | None:
        if self._link is None:
            found = direction == self._direction and self._needle in link.recent(direction, chunk)
            if not found or link.is_swallowed:
                return chunk
            self._link = link
            link.is_swallowed = True
        if link is not self._link or direction == "request":
            return chunk
        self._kept += chunk
        # ReadyForQuery is six bytes and the last that a server says: only then has the commit happened.
        if self._kept[-6:-1] != b"Z\x00\x00\x00\x05":
            return b""
        self.done = True
        return None


class _Link:
    """One client and its connection to the server, a thread for each direction."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._tails: dict[Direction, bytes] = {"request": b"", "reply": b""}
        self._running = 2
        self.is_swallowed = False  # by one of several rules; the others wait for the next connection
        self._threads = [
            threading.Thread(target=self._requests, name="wire requests", daemon=True),
            threading.Thread(target=self._replies, name="wire replies", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self, timeout: float) -> None:
        for thread in self._threads:
            thread.join(timeout)

    def cut(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def recent(self, direction: Direction, chunk: bytes) -> bytes:
        """The chunk with the end of the one before: what is looked for may be torn over two."""
        return self._tails[direction] + chunk

    def send_last(self, data: bytes) -> None:
        with suppress(OSError):
            self._server.sendall(data)

    def _requests(self) -> None:
        with self._ending():
            self._decline_encryption()
            self._pump("request", self._client, self._server)

    def _replies(self) -> None:
        with self._ending():
            self._pump("reply", self._server, self._client)

    def _decline_encryption(self) -> None:
        while True:
            first = self._client.recv(8, socket.MSG_PEEK | socket.MSG_WAITALL)
            if len(first) < 8 or struct.unpack("!ii", first)[1] not in _ENCRYPTION_REQUESTS:
                return
            self._client.recv(8)
            self._client.sendall(b"N")

    def _pump(self, direction: Direction, source: socket.socket, sink: socket.socket) -> None:
        while chunk := source.recv(65536):
            self._proxy._open.wait()
            passed = self._proxy._inspect(self, direction, chunk)
            if passed is None:
                return
            self._tails[direction] = chunk[-64:]
            sink.sendall(passed)

    def _ending(self) -> _CloseBothEnds:
        return _CloseBothEnds(self)

    def ended(self) -> None:
        self.cut()
        with self._proxy._lock:
            self._running -= 1
            if self._running == 0:
                self._client.close()
                self._server.close()
                self._proxy._links.discard(self)


class _CloseBothEnds:
    """However one direction ends, the other ends too, and both sockets are closed."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._link.ended()
        return kind is not None and issubclass(kind, OSError)
