"""A trace span per request, with the span of the caller as parent."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posthouse.server.access import PRINCIPAL
from posthouse.server.envelope import route_of
from posthouse.tracing import Traces

_ERRORS = 500


class ServerSpans:
    def __init__(self, app: ASGIApp, *, traces: Traces) -> None:
        self._app = app
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        method = scope["method"]
        with self._traces.span(
            method, "SERVER", {"http.request.method": method}, parent=self._traces.from_text(given)
        ) as span:

            async def answer(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _ERRORS:
                        self._traces.fail(span, str(message["status"]))
                await send(message)

            try:
                await self._app(scope, receive, answer)
            finally:
                route = route_of(scope)
                if route is not None:  # known only now
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                if PRINCIPAL in scope:
                    span.set_attribute("posthouse.principal", scope[PRINCIPAL])
