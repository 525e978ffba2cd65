"""Jobs of the application. Each stage enqueues the next one in the transaction that completes it.

extract_audio -> transcribe_start -> transcribe_poll -> analyze. A stage that finds its output in the storage
does not create it again: it deletes its input and continues. ``recognize`` is the local recognizer, which the
stages start and poll like an operation of the cloud.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from psycopg.types.json import Jsonb

import posthouse
from calls import paths, recognizers, settings, whisper
from calls.analysis import compute_figures
from calls.audio import convert_to_flac, convert_to_opus, probe
from calls.db import run, sql
from calls.phrases import phrase_columns
from calls.stages import (
    JOB_OPTIONS,
    again_payload,
    load_call,
    progress_callback,
    snooze_when_rate_limited,
    stage_options,
)
from calls.storage import storage
from calls.transcript import Transcript
from posthouse import Job, Snooze

POLL_OPTIONS = JOB_OPTIONS | {"max_attempts": 20}
"""More than other stages, because a started operation has to be paid for."""
REPLACE_STEP = "transcript"
"""Step after which the stored transcript is that of the polled operation."""
ORPHAN_AGE = timedelta(days=1)
"""Age after which no upload or job is still about to use a file that has no call."""

app = posthouse.App(schema=Path(__file__).with_name("schema.sql"), routes="calls.web")


@app.job("calls.extract_audio", queue="calls.media", runner="process", **JOB_OPTIONS)
def extract_audio(job: Job, call_id: UUID, raw_path: str, transcribe_again: bool = False) -> None:
    """Extract the audio of the recording."""
    load_call(job, call_id, {raw_path: paths.raw(call_id)})
    audio = paths.audio(call_id)
    if not storage().exists(audio):
        with storage().opened(raw_path, "recording") as recording:
            on_progress = progress_callback(job, probe(recording).duration)
            with convert_to_flac(recording, on_progress) as converted:
                storage().put(audio, converted)
    with storage().opened(audio) as converted:
        info = probe(converted)
    storage().remove([raw_path])
    next_payload = {"call_id": call_id, "audio_path": audio, **again_payload(transcribe_again)}
    job.enqueue(transcribe_start, next_payload, options=stage_options(transcribe_start, call_id))
    with job.commit() as db:
        run(db, "artifact_insert", call=call_id, org=job.tenant, kind="audio", path=audio)
        run(db, "call_set_audio_info", call=call_id, **info._asdict())
        job.result = info._asdict()


@app.job("calls.transcribe_start", queue="calls.media", runner="process", **JOB_OPTIONS)
def transcribe_start(job: Job, call_id: UUID, audio_path: str, transcribe_again: bool = False) -> None:
    """Convert the audio to OGG Opus and start its recognition."""
    call = load_call(job, call_id, {audio_path: paths.audio(call_id)})
    ogg = paths.ogg(call_id)
    if transcribe_again:
        storage().remove([paths.recognized(call_id)])
    elif storage().exists(paths.transcript(call_id)):
        finish_transcription(job, call_id)
        return
    if not storage().exists(ogg):
        on_progress = progress_callback(job, call.duration or 0.0)
        with storage().opened(audio_path) as audio, convert_to_opus(audio, on_progress) as converted:
            storage().put(ogg, converted)
    recognizer = recognizers.configured_recognizer()
    with snooze_when_rate_limited(recognizer):
        operation = recognizer.start(job, ogg)
    files = {"audio_path": audio_path, "ogg_path": ogg, "transcript_path": paths.transcript(call_id)}
    next_payload = {"call_id": call_id, "operationId": operation, **files, **again_payload(transcribe_again)}
    job.enqueue(transcribe_poll, next_payload, options=stage_options(transcribe_poll, call_id))
    with job.commit():
        job.result = {"operationId": operation}


@app.job("calls.transcribe_poll", queue="calls.poll", **POLL_OPTIONS)
def transcribe_poll(
    job: Job,
    *,
    call_id: UUID,
    operationId: str,  # noqa: N803 - the payload's name for it
    audio_path: str,
    ogg_path: str,
    transcript_path: str,
    transcribe_again: bool = False,
) -> None:
    """Poll the recognition; snooze until it has finished."""
    path_functions = {audio_path: paths.audio, ogg_path: paths.ogg, transcript_path: paths.transcript}
    load_call(job, call_id, {path: path_of(call_id) for path, path_of in path_functions.items()})
    must_replace = transcribe_again and REPLACE_STEP not in job.steps_done()
    if must_replace or not storage().exists(transcript_path):
        recognizer = recognizers.configured_recognizer()
        with snooze_when_rate_limited(recognizer):
            operation = recognizer.poll(job, operationId)
        if not operation.done:
            raise recognizer.policy.snooze()
        storage().put(transcript_path, operation.transcript().model_dump_json().encode())
        job.step(REPLACE_STEP, lambda: True)
    finish_transcription(job, call_id)


def finish_transcription(job: Job, call_id: UUID) -> None:
    """Delete intermediate files and enqueue the analysis."""
    storage().remove([paths.ogg(call_id), paths.recognized(call_id)])
    path = paths.transcript(call_id)
    job.enqueue(analyze, call_id=call_id, transcript_path=path, options=stage_options(analyze, call_id))
    with job.commit() as db:
        run(db, "artifact_insert", call=call_id, org=job.tenant, kind="transcript", path=path)
        job.result = {"transcript": path}


@app.job("calls.analyze", queue="calls.poll", **JOB_OPTIONS)
def analyze(job: Job, call_id: UUID, transcript_path: str) -> None:
    """Compute the figures of the call and make its transcript searchable. Idempotent."""
    call = load_call(job, call_id, {transcript_path: paths.transcript(call_id)})
    transcript = Transcript.model_validate_json(storage().read(transcript_path))
    figures = compute_figures(transcript, call.duration or 0.0)
    confidence = transcript.confidence
    is_low = confidence is not None and confidence < settings.min_confidence()
    analysis = {"confidence": confidence, "is_low": is_low, "figures": Jsonb(figures)}
    with job.commit() as db:
        run(db, "analysis_upsert", call=call_id, org=job.tenant, **analysis)
        run(db, "phrases_replace", call=call_id, org=job.tenant, **phrase_columns(transcript))
        job.result = figures


@app.job(recognizers.RECOGNIZE, queue="calls.recognize", runner="process", **JOB_OPTIONS)
def recognize(job: Job, call_id: UUID, ogg_path: str) -> dict[str, str]:
    """Transcribe the audio with the local recognizer."""
    load_call(job, call_id, {ogg_path: paths.ogg(call_id)})
    result_path = paths.recognized(call_id)
    if not storage().exists(result_path):
        with storage().opened(ogg_path) as speech:
            operation = whisper.recognize(speech, str(job.id), lambda share: job.progress(100 * share))
        storage().put(result_path, json.dumps(operation).encode())
    return {"recognized_path": result_path}


@app.job("calls.discard", **JOB_OPTIONS)
def discard(job: Job, call_id: UUID) -> None:
    """Delete the files of a deleted call, again when its last job has noticed that it was canceled."""
    with job.transaction() as db:
        active = db.execute(sql("call_is_active"), {"org": job.tenant, "call": call_id}).fetchone()
    storage().remove_prefix(paths.folder(call_id))
    if active and active[0]:
        raise Snooze("1s", deadline="1h")


@app.job("calls.sweep", **JOB_OPTIONS)
def sweep(job: Job) -> None:
    """Delete files without a call, and uploads of calls that failed long ago."""
    cutoff = datetime.now(UTC) - ORPHAN_AGE
    old_calls = {
        paths.call_id_of(item.path) for item in storage().found(paths.CALLS) if item.modified < cutoff
    }
    parameters = {"ids": [call_id for call_id in old_calls if call_id], "days": settings.failed_upload_days()}
    with job.transaction() as db:
        orphans = [row[0] for row in db.execute(sql("calls_missing"), parameters).fetchall()]
        failed = [row[0] for row in db.execute(sql("calls_failed"), parameters).fetchall()]
    for call_id in orphans:
        storage().remove_prefix(paths.folder(call_id))
    for call_id in failed:
        storage().remove(paths.temporary_files(call_id))
    with job.commit() as db:
        run(db, "calls_mark_uploads_deleted", ids=failed)
        job.result = {"orphans": len(orphans), "failed": len(failed)}


sweep.on_schedule(
    "25 * * * *", missed="skip", overlap="skip", label="Delete files of deleted and failed calls"
)
