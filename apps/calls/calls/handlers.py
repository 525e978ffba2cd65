"""Jobs of the application. Each stage enqueues the next one in the transaction that completes it.

extract_audio -> transcribe_start -> transcribe_poll -> analyze. A stage that finds its output in the storage
does not create it again: it deletes its input and continues. ``recognize`` is the local recognizer, which the
stages start and poll like an operation of the cloud.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

import posthouse
from calls import paths, recognizers, whisper
from calls.analysis import analyse
from calls.audio import NoAudio, as_flac, as_opus, probe
from calls.db import sql
from calls.speechkit import OperationFailed, RateLimited, RequestRejected
from calls.storage import NotStored, SigningUnsupported, storage
from calls.transcript import Transcript
from posthouse import Job, Retry

POLL_ATTEMPTS = 20
"""More than other stages, because a started operation has to be paid for."""


class CallNotFound(Exception):
    """The call does not exist in this organisation."""


class WrongFile(Exception):
    """The payload names a file of another call."""


PERMANENT_ERRORS = (
    CallNotFound,
    WrongFile,
    SigningUnsupported,
    NoAudio,
    NotStored,
    OperationFailed,
    RequestRejected,
)
"""Errors that a retry cannot fix."""
STAGE_OPTIONS: dict[str, Any] = {
    "retry": Retry.exponential("30s", factor=2, cap="10m", jitter=0),
    "fail_on": PERMANENT_ERRORS,
    "timeout": "1h",
    "remote": False,
}

app = posthouse.App(schema=Path(__file__).with_name("schema.sql"), routes="calls.routes")


@app.job("calls.extract_audio", queue="calls.media", runner="process", max_attempts=5, **STAGE_OPTIONS)
def extract_audio(job: Job, call_id: UUID, raw_path: str) -> None:
    """Extract the audio of the recording."""
    load_call(job, call_id, {raw_path: paths.raw(call_id)})
    audio = paths.audio(call_id)
    if not storage().exists(audio):
        with storage().opened(raw_path) as recording, as_flac(recording) as made:
            storage().put(audio, made)
    with storage().opened(audio) as made:
        sound = probe(made)
    storage().remove([raw_path])
    job.enqueue(
        transcribe_start, call_id=call_id, audio_path=audio, options=stage_options(transcribe_start, call_id)
    )
    with job.commit() as db:
        _keep(db, job, call_id, "audio", audio)
        _run(db, "call_set_audio_info", {"call": call_id, **sound._asdict()})
        job.result = sound._asdict()


@app.job("calls.transcribe_start", queue="calls.media", runner="process", max_attempts=5, **STAGE_OPTIONS)
def transcribe_start(job: Job, call_id: UUID, audio_path: str) -> None:
    """Convert the audio to OGG Opus and start its recognition."""
    load_call(job, call_id, {audio_path: paths.audio(call_id)})
    ogg = paths.ogg(call_id)
    if storage().exists(paths.transcript(call_id)):
        finish_transcription(job, call_id)
        return
    if not storage().exists(ogg):
        with storage().opened(audio_path) as sound, as_opus(sound) as made:
            storage().put(ogg, made)
    recognizer = recognizers.configured_recognizer(app)
    with snooze_when_busy(recognizer):
        operation = recognizer.start(job, ogg)
    files = {"audio_path": audio_path, "ogg_path": ogg, "transcript_path": paths.transcript(call_id)}
    following = {"call_id": call_id, "operationId": operation, **files}
    job.enqueue(transcribe_poll, following, options=stage_options(transcribe_poll, call_id))
    with job.commit():
        job.result = {"operationId": operation}


@app.job("calls.transcribe_poll", queue="calls.poll", max_attempts=POLL_ATTEMPTS, **STAGE_OPTIONS)
def transcribe_poll(
    job: Job,
    *,
    call_id: UUID,
    operationId: str,  # noqa: N803 - the payload's name for it
    audio_path: str,
    ogg_path: str,
    transcript_path: str,
) -> None:
    """Poll the recognition; snooze until it has finished."""
    named = {audio_path: paths.audio, ogg_path: paths.ogg, transcript_path: paths.transcript}
    load_call(job, call_id, {path: own(call_id) for path, own in named.items()})
    if not storage().exists(transcript_path):
        recognizer = recognizers.configured_recognizer(app)
        with snooze_when_busy(recognizer):
            operation = recognizer.poll(operationId)
        if not operation.done:
            raise recognizer.policy.snooze()
        storage().put(transcript_path, operation.transcript().model_dump_json().encode())
    finish_transcription(job, call_id)


def finish_transcription(job: Job, call_id: UUID) -> None:
    """Delete intermediate files and enqueue the analysis."""
    storage().remove([paths.ogg(call_id), paths.recognized(call_id)])
    path = paths.transcript(call_id)
    job.enqueue(analyze, call_id=call_id, transcript_path=path, options=stage_options(analyze, call_id))
    with job.commit() as db:
        _keep(db, job, call_id, "transcript", path)
        job.result = {"transcript": path}


@app.job("calls.analyze", queue="calls.poll", max_attempts=5, **STAGE_OPTIONS)
def analyze(job: Job, call_id: UUID, transcript_path: str) -> None:
    """Compute the figures of the call from its transcript. Idempotent."""
    call = load_call(job, call_id, {transcript_path: paths.transcript(call_id)})
    transcript = Transcript.model_validate_json(storage().read(transcript_path))
    found = analyse(transcript, call.duration or 0.0)
    with job.commit() as db:
        _run(db, "analysis_upsert", {"call": call_id, "org": job.tenant, "figures": Jsonb(found)})
        job.result = found


@app.job(recognizers.RECOGNIZE, queue="calls.recognize", runner="process", max_attempts=5, **STAGE_OPTIONS)
def recognize(job: Job, call_id: UUID, ogg_path: str) -> dict[str, str]:
    """Transcribe the audio with the local recognizer."""
    load_call(job, call_id, {ogg_path: paths.ogg(call_id)})
    answer = paths.recognized(call_id)
    if not storage().exists(answer):
        with storage().opened(ogg_path) as speech:
            done = whisper.recognize(speech, str(job.id), lambda share: job.progress(100 * share))
        storage().put(answer, json.dumps(done).encode())
    return {"recognized_path": answer}


def stage_options(kind: Any, call_id: UUID) -> Any:
    """Return the job options of a stage: one active job of each kind per call."""
    return {"dedupe_key": f"{kind.kind}:{call_id}", "subject": str(call_id)}


class _Call(NamedTuple):
    duration: float | None


def load_call(job: Job, call_id: UUID, named: dict[str, str]) -> _Call:
    """Return the call. Payloads are not trusted: paths must be those of the call."""
    for path, own in named.items():
        if path != own:
            raise WrongFile(f"invalid path {path!r}: expected {own!r}")

    def known(db: psycopg.Connection[Any]) -> Any:
        row = db.execute(sql("call_get"), {"call": call_id, "org": job.tenant}).fetchone()
        if row is None:
            raise CallNotFound(f"call {call_id} does not exist")
        return row

    return _Call(*job.step_commit("call", known))


@contextmanager
def snooze_when_busy(recognizer: recognizers.Recognizer) -> Iterator[None]:
    """Snooze without spending an attempt if the recognizer is busy."""
    try:
        yield
    except RateLimited as busy:
        raise recognizer.policy.snooze(busy.seconds) from None


def _keep(db: psycopg.Connection[Any], job: Job, call_id: UUID, kind: str, path: str) -> None:
    _run(db, "artifact_insert", {"call": call_id, "org": job.tenant, "kind": kind, "path": path})


def _run(db: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> None:
    db.execute(sql(name), parameters)
