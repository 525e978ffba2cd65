"""Spans from the enqueue to the handler, as OpenTelemetry's SDK collects them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import posthouse
from posthouse import tracing
from posthouse.core.redaction.logs import LogContextFilter
from posthouse.worker import observers
from support.server import RunningServer
from support.waiting import eventually
from support.workers import job_status, running_worker

EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def provider():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)


@pytest.fixture
def spans(monkeypatch):
    """By name, of this test; tracing is off again afterwards."""
    monkeypatch.setattr(tracing, "traces", None)
    monkeypatch.setattr(observers, "_observers", [])
    EXPORTER.clear()
    return lambda: {span.name: span for span in EXPORTER.get_finished_spans()}


def parent_of(span):
    return None if span.parent is None else span.parent.span_id


async def test_a_trace_leads_from_the_caller_to_the_handler(settings, db, spans):
    app = posthouse.App(settings=replace(settings, tracing=True))
    inside = {}

    @app.job(max_attempts=1)
    def inner(job: posthouse.Job) -> None:
        inside["thread"] = trace.get_current_span().get_span_context().span_id
        raise ValueError("secret text")

    @app.job()
    async def outer(job: posthouse.Job) -> None:
        job.enqueue(inner)

    async with app, running_worker(app):
        with trace.get_tracer("test").start_as_current_span("caller") as caller:
            handle = await outer.using(correlation_id="trip").enqueue()
        await eventually(lambda: {"run outer", "run inner"} <= set(spans()))
    found = spans()
    enqueue, wait, run = found["enqueue outer"], found["wait outer"], found["run outer"]
    assert parent_of(enqueue) == caller.get_span_context().span_id
    assert parent_of(run) == parent_of(wait) == enqueue.context.span_id
    assert {span.context.trace_id for span in found.values()} == {caller.get_span_context().trace_id}
    assert (enqueue.kind, run.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    assert run.attributes["messaging.message.id"] == str(handle.id)
    assert run.attributes["correlation_id"] == enqueue.attributes["correlation_id"] == "trip"
    assert run.attributes["posthouse.outcome"] == "succeeded"
    assert wait.end_time >= wait.start_time
    failed = found["run inner"]
    assert parent_of(failed) == run.context.span_id
    assert failed.context.span_id == inside["thread"]
    assert not failed.status.is_ok
    assert "secret text" not in failed.to_json()


async def test_a_request_is_a_span_and_its_job_goes_on_from_it(api, settings, db, spans):
    traced = replace(settings, tracing=True)
    app = posthouse.App(settings=traced)

    @app.job()
    async def sync() -> None: ...

    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with RunningServer(traced, database=api.database) as server, app, running_worker(app):
        client = server.client(await api.key("tenant-admin", "acme"))
        made = await client.post(
            "/api/v1/jobs", json={"definition_key": "sync"}, headers={"traceparent": caller}
        )
        await client.get(f"/api/v1/jobs/{made.json()['id']}?token=hunter2")
        await eventually(lambda: "run sync" in spans())
    found = spans()
    request, run = found["POST /api/v1/jobs"], found["run sync"]
    assert f"{request.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert request.context.trace_id == run.context.trace_id
    assert parent_of(run) == request.context.span_id
    assert request.attributes["http.response.status_code"] == 201
    shown = found["GET /api/v1/jobs/{job_id}"]
    assert "hunter2" not in shown.to_json()


async def test_a_batch_is_linked_to_the_traces_of_its_jobs(settings, db, spans):
    app = posthouse.App(settings=replace(settings, tracing=True))

    @app.job(batch=10)
    async def many(jobs: list[posthouse.Job]) -> None: ...

    async with app:
        for _ in range(3):
            await many.enqueue()
        sent = {span.context.span_id for span in EXPORTER.get_finished_spans() if span.name == "enqueue many"}
        async with running_worker(app):
            await eventually(lambda: "run many" in spans())
    assert {link.context.span_id for link in spans()["run many"].links} == sent


async def test_without_the_setting_there_are_no_spans_and_jobs_carry_nothing(app, db, spans):
    @app.job()
    async def plain() -> None: ...

    async with running_worker(app):
        with trace.get_tracer("test").start_as_current_span("caller"):
            handle = await plain.enqueue()
        await eventually(lambda: job_status(db, handle.id) == "succeeded")
    assert set(spans()) == {"caller"}
    assert db.execute("select trace from posthouse.history").fetchall() == [(None,)]


async def test_lines_that_are_logged_in_a_span_name_it(settings, spans, caplog):
    app = posthouse.App(settings=replace(settings, tracing=True))
    lines = []
    handler = logging.Handler()
    handler.addFilter(LogContextFilter())
    handler.emit = lines.append
    logger = logging.getLogger("some.application")
    logger.addHandler(handler)

    @app.job()
    async def talk() -> None:
        await asyncio.to_thread(logger.warning, "hello")

    async with app, running_worker(app):
        handle = await talk.using(tenant="acme").enqueue()
        await eventually(lambda: "run talk" in spans())
    logger.removeHandler(handler)
    (line,) = lines
    assert (line.job_id, line.tenant_id, line.kind, line.attempt) == (str(handle.id), "acme", "talk", 1)
    assert line.trace_id == f"{spans()['run talk'].context.trace_id:032x}"
