"""OpenTelemetry tracing from the enqueue to the handler, enabled by the setting ``tracing``.

Only the OpenTelemetry API is used, and it is imported only when tracing is on. The application chooses the
SDK and the exporter.

A job stores the W3C traceparent of the span that enqueued it (column ``trace``). Baggage
and tracestate are not stored: they can contain arbitrary data, which would be kept as long as the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from posthouse.core.redaction.logs import tell
from posthouse.core.request import Request
from posthouse.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

SYSTEM = "posthouse"


class Traces:
    """The tracer and the propagator of this process."""

    def __init__(self) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415 - an optional dependency
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
        """Return the tracer. Looked up on each call, because the application may set its provider later."""
        return self._trace.get_tracer("posthouse")

    def here(self) -> str | None:
        """Return the traceparent of the current span, or None without a current span."""
        carrier: dict[str, str] = {}
        self._wire.inject(carrier)
        return carrier.get("traceparent")

    def from_text(self, traceparent: str | None) -> Context:
        """Return the context of a traceparent. An invalid traceparent starts a new trace."""
        return self._wire.extract({"traceparent": traceparent} if traceparent else {}, self._empty())

    def _empty(self) -> Context:
        from opentelemetry.context import Context  # noqa: PLC0415 - an optional dependency

        return Context()

    def ids(self) -> dict[str, object]:
        """Return the ids of the current span, for log lines."""
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
        """Run the block in a span.

        Exceptions are recorded by type only, because their text may contain secrets.
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
        """Record a span that has already ended. Times are in nanoseconds."""
        self.tracer.start_span(name, context=parent, start_time=began).end(max(began, ended))

    def fail(self, span: Span, what: str) -> None:
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, what))

    def _links(self, texts: Sequence[str]) -> list[Any]:
        spans = (self._trace.get_current_span(self.from_text(text)) for text in texts)
        return [self._trace.Link(span.get_span_context()) for span in spans]


traces: Traces | None = None
"""The tracer of this process, or None while tracing is off."""


def start_tracing() -> Traces:
    """Turn tracing on in this process and return the tracer."""
    global traces  # noqa: PLW0603 - tracing is a property of the whole process
    if traces is None:
        traces = Traces()
        tell(traces.ids)
    return traces


def traced(request: Request) -> Request:
    """Return the request with the current span as the parent of the job's spans."""
    here = None if traces is None or request.trace is not None else traces.here()
    return request if here is None else request.changed(trace=here)


@contextmanager
def producing(requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """Wrap an enqueue in a producer span and yield the requests with its traceparent. Tracing must be on."""
    assert traces is not None
    kinds = {request.kind for request in requests}
    name = f"enqueue {kinds.pop()}" if len(kinds) == 1 else "enqueue"
    with traces.span(name, "PRODUCER", _about_requests(requests)):
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
