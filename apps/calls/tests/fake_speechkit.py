"""A stand-in for SpeechKit's asynchronous recognition, which has to be paid for. It speaks the protocol over
HTTP, fetches the speech from where it is told, and has the troubles that it is told to have.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter, defaultdict, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import httpx

START = "/speech/stt/v2/longRunningRecognize"
WORDS = ["The", "parcel", "is", "here"]
CHUNK = {
    "alternatives": [
        {
            "text": "The parcel is here",
            "confidence": 1,
            "words": [
                {"word": word, "startTime": f"{index}.100s", "endTime": f"{index}.900s", "confidence": 1}
                for index, word in enumerate(WORDS)
            ],
        }
    ],
    "channelTag": "1",
}


class FakeSpeechKit:
    """``start_troubles`` and ``poll_troubles`` say, for each call, what happens instead of an answer, one
    after the other; ``pending`` how often its operation is not done yet.
    """

    def __init__(self, key):
        self.key = key
        self.start_troubles = defaultdict(deque)
        self.poll_troubles = defaultdict(deque)
        self.pending = Counter()
        self.operations = {}
        self.once = {}
        self.starts = Counter()
        self.polls = Counter()
        self.refused = []
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def start(self, asked, once):
        """What the cloud does with a request; it names the speech by the address to fetch it from."""
        uri = asked["audio"]["uri"]
        call = re.search(r"calls/([0-9a-f-]{36})/speech\.ogg", uri)[1]
        self.starts[call] += 1
        if trouble := self._trouble(self.start_troubles[call]):
            return trouble
        speech = httpx.get(uri).raise_for_status().content
        if asked["config"]["specification"]["audioEncoding"] != "OGG_OPUS" or b"OpusHead" not in speech[:64]:
            return 400, {"code": 3, "message": "this is no OGG Opus"}
        operation = self.once.setdefault(once, uuid4().hex)
        self.operations[operation] = call
        return 200, {"id": operation, "done": False, "createdAt": "2026-11-16T10:00:00Z"}

    def poll(self, operation):
        call = self.operations.get(operation)
        if call is None:
            return 404, {"code": 5, "message": "operation not found"}
        self.polls[call] += 1
        if trouble := self._trouble(self.poll_troubles[call], operation):
            return trouble
        if self.pending[call] > 0:
            self.pending[call] -= 1
            return 200, {"id": operation, "done": False}
        return 200, {"id": operation, "done": True, "response": {"chunks": [CHUNK]}}

    def _trouble(self, troubles, operation=None):
        if not troubles:
            return None
        trouble = troubles[0] if troubles[0] == "always 500" else troubles.popleft()
        if trouble == "slow":
            self.released.wait(60)
        return {
            "429": (429, {"code": 8, "message": "too many requests"}),
            "429 for 40 s": (429, {"code": 8, "message": "too many requests"}, {"Retry-After": "40"}),
            "500": (500, {"code": 13, "message": "internal"}),
            "always 500": (500, {"code": 13, "message": "internal"}),
            "slow": (200, {"id": "too late"}),
            "no json": (200, "<html>a proxy's page</html>"),
            "no id": (200, {"done": False}),
            "done with nothing": (200, {"id": "x", "done": True}),
            "no times": (
                200,
                {"id": "x", "done": True, "response": {"chunks": [{"alternatives": [{"text": "a"}]}]}},
            ),
            "another": (200, {"id": "another", "done": False}),
            "failed": (200, {"id": operation, "done": True, "error": {"code": 3, "message": "no speech"}}),
        }[trouble]

    def _handler(cloud):  # noqa: N805 - in the handler, self is a request
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                known = self.path == START
                self._answer(
                    lambda: cloud.start(body, self.headers["Idempotency-Key"]) if known else (404, {})
                )

            def do_GET(self):
                self._answer(lambda: cloud.poll(self.path.removeprefix("/operations/")))

            def _answer(self, work):
                if self.headers["Authorization"] != f"Api-Key {cloud.key}":
                    cloud.refused.append(self.path)
                    status, body, *more = 401, {"code": 16, "message": "unknown api key"}
                else:
                    status, body, *more = work()
                content = (body if isinstance(body, str) else json.dumps(body)).encode()
                try:
                    self.send_response(status)
                    for name, value in (more[0] if more else {}).items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except ConnectionError:  # the client has disconnected
                    self.close_connection = True

            def log_message(self, *_):
                """Nothing: tests say what they see."""

        return Handler
