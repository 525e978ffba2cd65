"""Traces by OpenTelemetry, where the setting ``tracing`` is on: from whoever enqueues, over the queue, to the
handler. Only its API is used, and imported only then: which SDK there is, and where spans go, is up to the
application.

A job carries the W3C traceparent of the span that enqueued it (a column of its own: see 0001_places.sql).
Baggage and tracestate are not carried: they may hold anything, and would be kept for as long as the job is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from posthouse.core.request import Request
from posthouse.core.surroundings import tell
from posthouse.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

SYSTEM = "posthouse"


class Traces:
    """The tracer and what is needed to hand its context on."""

    def __init__(self) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415 - an extra
            from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
                TraceContextTextMapPropagator,
            )
        except ImportError:
            raise ConfigurationError(
                "tracing needs OpenTelemetry: pip install 'posthouse[otel]', or turn the setting tracing off"
            ) from None
        self._trace = trace
        self._wire = TraceContextTextMapPropagator()

    @property
    def tracer(self) -> Any:
        """Asked for each time: an application may set its provider later."""
        return self._trace.get_tracer("posthouse")

    def here(self) -> str | None:
        """The traceparent of the current span; None if there is none."""
        carrier: dict[str, str] = {}
        self._wire.inject(carrier)
        return carrier.get("traceparent")

    def from_text(self, traceparent: str | None) -> Context:
        """The context that goes on from there. What cannot be read starts a new trace."""
        return self._wire.extract({"traceparent": traceparent} if traceparent else {}, self._empty())

    def _empty(self) -> Context:
        from opentelemetry.context import Context  # noqa: PLC0415 - as above

        return Context()

    def ids(self) -> dict[str, object]:
        """Of the current span, for log lines."""
        found = self._trace.get_current_span().get_span_context()
        if not found.is_valid:
            return {}
        return {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"}

    @contextmanager
    def span(
        self,
        name: str,
        kind: str,
        attributes: Mapping[str, Any],
        *,
        parent: Context | None = None,
        links: Sequence[str] = (),
    ) -> Iterator[Span]:
        """A span that is the current one for the length of a block. What goes wrong in there is told by type:
        the text of an error may hold secrets.
        """
        chosen = getattr(self._trace.SpanKind, kind)
        wanted = {key: value for key, value in attributes.items() if value is not None}
        options = {"context": parent, "kind": chosen, "attributes": wanted, "links": self._links(links)}
        with self.tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False, **options
        ) as span:
            try:
                yield span
            except Exception as error:
                self.fail(span, type(error).__name__)
                raise

    def past(self, name: str, parent: Context, began: int, ended: int) -> None:
        """A span that is over: times in nanoseconds."""
        self.tracer.start_span(name, context=parent, start_time=began).end(max(began, ended))

    def fail(self, span: Span, what: str) -> None:
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, what))

    def _links(self, texts: Sequence[str]) -> list[Any]:
        spans = (self._trace.get_current_span(self.from_text(text)) for text in texts)
        return [self._trace.Link(span.get_span_context()) for span in spans]


_traces: Traces | None = None


def start_tracing() -> Traces:
    """From now on, in this process."""
    global _traces  # noqa: PLW0603 - a process is traced or it is not
    if _traces is None:
        _traces = Traces()
        tell(_traces.ids)
    return _traces


def traces() -> Traces | None:
    """None: nobody wants any."""
    return _traces


def traced(request: Request) -> Request:
    """With the current span as where its own go on from."""
    here = None if _traces is None or request.trace is not None else _traces.here()
    return request if here is None else request.changed(trace=here)


@contextmanager
def producing(requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """A span around an enqueue: what is enqueued goes on from it."""
    if _traces is None:
        yield requests
        return
    kinds = {request.kind for request in requests}
    name = f"enqueue {kinds.pop()}" if len(kinds) == 1 else "enqueue"
    with _traces.span(name, "PRODUCER", _about_requests(requests)):
        yield [traced(request) for request in requests]


def _about_requests(requests: Sequence[Request]) -> dict[str, Any]:
    first = requests[0]
    if len(requests) > 1:
        return {"messaging.system": SYSTEM, "messaging.batch.message_count": len(requests)}
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.type": "send",
        "posthouse.kind": first.kind,
        "posthouse.tenant_id": first.tenant,
        "correlation_id": first.correlation_id,
    }
