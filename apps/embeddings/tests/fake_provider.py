"""A server that speaks the protocols of Ollama and of OpenAI, as far as embeddings go."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WIDTHS = {"nomic-embed-text": 768, "text-embedding-3-small": 1536, "ada": 512, "wide": 4096}
MAX_CHARS = 500


class FakeProvider:
    """Vectors that depend on the text alone. Faults are HTTP statuses to answer with, one a request."""

    def __init__(self):
        self.requests = []
        self.faults = []
        self.key = None
        self.garbled = None

    def answer(self, path, headers, body):
        self.requests.append(body)
        return self._refusal(headers, body) or (
            200,
            self._vectors(path, body) if self.garbled is None else self.garbled,
        )

    def _refusal(self, headers, body):
        if self.faults:
            status = self.faults.pop(0)
            return status, {"error": f"fault {status}"}
        if self.key and headers.get("Authorization") != f"Bearer {self.key}":
            return 401, {"error": {"message": "wrong key", "type": "invalid_request_error"}}
        if body["model"] not in WIDTHS:
            return 404, {"error": f"model {body['model']!r} not found, try pulling it first"}
        if any(len(text) > MAX_CHARS for text in body["input"]):
            return 400, {"error": {"message": "the input length exceeds the context length"}}
        return None

    def _vectors(self, path, body):
        width = body.get("dimensions", WIDTHS[body["model"]])
        vectors = [vector_of(text, width) for text in body["input"]]
        if path == "/api/embed":
            return {"model": body["model"], "embeddings": vectors}
        data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
        return {"object": "list", "model": body["model"], "data": data[::-1]}


def vector_of(text, width):
    seed = hashlib.sha256(text.encode()).digest()
    return [(seed[n % 32] - 127.5) / 128 for n in range(width)]


@contextmanager
def serving():
    fake = FakeProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = fake.answer(self.path.removeprefix("/v1"), self.headers, body)
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_): ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        fake.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()
