"""A destination for alerts: a real HTTP server that keeps what it gets and answers as it is told."""

from __future__ import annotations

import json
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Receiver:
    """``answers`` are given first, one a request: a status, or a function that gets the handler."""

    def __init__(self, server, scheme):
        self._server = server
        self.port = server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}/hooks/T0KEN-that-is-never-shown"
        self.received = []
        self.answers = deque()

    @property
    def alerts(self):
        return [request.json for request in self.received]


@contextmanager
def receiving(port=0, tls=None):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.received.append(Received(self.path, dict(self.headers), body))
            answer = receiver.answers.popleft() if receiver.answers else 200
            if callable(answer):
                answer(self)
                return
            self.send_response(answer)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            """A client that hangs up is what some tests want."""

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(server, "http" if tls is None else "https")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
