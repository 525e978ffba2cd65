"""Jobs of the application. Each stage enqueues the next one in the transaction that completes it.

transcode -> sample -> ocr -> segment_index; clip_generate on request. An upload over HTTP starts the first
stage; scan starts it for files that were put into the storage directly. CPU-bound stages run in separate
processes, one per core, so that a file that crashes a decoder affects no other job. Each stage has its own
queue, so that slow stages can get more workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

import posthouse
from posthouse import Job, Limit, Retry
from vision import options, paths
from vision.frames import Picked, pick
from vision.media import BadVideo, probe
from vision.options import ClipId, Fps, Languages, Milliseconds, ReadingOptions, Share
from vision.pipeline_log import accounted
from vision.publishing import EmptyClip, publish_clip, publish_hls, publish_poster
from vision.reading import UnknownLanguage, refuse_unknown
from vision.regions import ForeignFrame, regions_of, spans_of
from vision.settings import default_team, ocr_batch, settle_seconds
from vision.statements import statement
from vision.storage import DENIED, S3ObjectNotFound, storage
from vision.texts import mentioned

MOST_PATHS = 10_000
"""Frame paths in a payload. If there are more, ocr lists them itself, because payload size is limited."""
CLIP_LIFE = timedelta(days=30)
ORIGINAL = "Original video"
RETRY = Retry("1m", "5m", "15m", jitter=0.2)


class VideoNotFound(Exception):
    """The video does not exist in this team."""


FINAL = (
    BadVideo,
    EmptyClip,
    ForeignFrame,
    S3ObjectNotFound,
    UnknownLanguage,
    VideoNotFound,
    psycopg.errors.IntegrityError,
    *DENIED,
)
"""Errors that a retry cannot fix."""
ONE_A_VIDEO = {"limits": [Limit(running=1, per="key")], "limit_by": "video_id"}
"""At most one running job of each kind per video."""
ERRORS: dict[str, Any] = {"retry": RETRY, "fail_on": FINAL}
STAGE = {**ERRORS, "timeout": "4h", **ONE_A_VIDEO}

app = posthouse.App(schema=Path(__file__).with_name("schema.sql"), routes="vision.routes")


@app.job("vision.scan", retry=RETRY, fail_on=DENIED, timeout="10m")
def scan(job: Job, settled: float | None = None) -> None:
    """Find new originals in the storage and enqueue their processing."""
    before = datetime.now(UTC) - timedelta(seconds=settle_seconds() if settled is None else settled)
    listed = ((paths.video_of_original(item.path), item) for item in storage().found(paths.ORIGINALS))
    found = {video_id: item.path for video_id, item in listed if video_id and item.modified <= before}
    with job.commit() as db:
        arrived = {"team": default_team(), "ids": list(found), "paths": list(found.values())}
        new = db.execute(statement("videos_arrived"), arrived).fetchall()
        for video_id, team in new:
            start = about(transcode, video_id) | {"tenant": team, "correlation_id": str(video_id)}
            job.enqueue(transcode, video_id=video_id, s3_original_path=found[video_id], options=start)
        job.result = {"found": len(found), "new": len(new)}


scan.on_schedule("* * * * *", missed="skip", overlap="skip", label="Scan the storage for new videos")


@app.job("vision.transcode", queue="vision.transcode", runner="process", **STAGE)
@accounted
def transcode(job: Job, video_id: UUID, s3_original_path: str) -> None:
    """Create an HLS stream and a poster image."""
    wanted = ReadingOptions(**_begin(job, video_id, s3_original_path)["options"])
    with storage().opened(s3_original_path, ORIGINAL) as original:
        known = probe(original)
        job.step("hls", publish_hls, original, video_id, _percent(job, known.duration_ms))
        job.step("poster", publish_poster, original, video_id)
    job.enqueue(
        sample,
        video_id=video_id,
        s3_original_path=s3_original_path,
        target_fps=wanted.target_fps,
        dedupe_threshold=wanted.dedupe_threshold,
        options=about(sample, video_id),
    )
    with job.commit() as db:
        job.result = {"proxy": paths.playlist(video_id), "thumb": paths.poster(video_id), **asdict(known)}
        _run(db, "video_transcoded", {"video": video_id, **job.result})


@app.job("vision.sample", queue="vision.sample", runner="process", **STAGE)
@accounted
def sample(
    job: Job,
    video_id: UUID,
    s3_original_path: str,
    target_fps: Fps = options.TARGET_FPS,
    dedupe_threshold: Share = options.DEDUPE_THRESHOLD,
) -> dict[str, int]:
    """Extract the frames that differ from the previous one."""
    video = _begin(job, video_id, s3_original_path)
    wanted = ReadingOptions(**video["options"])
    percent = _percent(job, video["duration_ms"])
    kept = []
    with storage().opened(s3_original_path, ORIGINAL) as original:
        for found in pick(original, target_fps, dedupe_threshold):
            if isinstance(found, Picked):
                kept.append(paths.frame(video_id, found.timestamp_ms))
                storage().put(kept[-1], found.jpeg)
            percent(found.timestamp_ms)
    storage().keep_only(paths.frames(video_id), kept)
    job.enqueue(
        ocr,
        video_id=video_id,
        frame_paths=kept if len(kept) <= MOST_PATHS else None,
        languages=wanted.languages,
        min_confidence=wanted.min_confidence,
        options=about(ocr, video_id),
    )
    return {"frames": len(kept)}


@app.job("vision.ocr", queue="vision.ocr", runner="process", **STAGE)
@accounted
def ocr(
    job: Job,
    video_id: UUID,
    frame_paths: list[str] | None = None,
    languages: Languages = list(options.LANGUAGES),  # noqa: B006 - never modified
    min_confidence: Share = options.MIN_CONFIDENCE,
) -> dict[str, int]:
    """Read the text in the frames, in batches. Completed batches are kept across attempts."""
    refuse_unknown(languages)
    video = _begin(job, video_id)
    spans = spans_of(video_id, frame_paths, video["duration_ms"] or 0)
    job.step_commit("clear", _run, "segments_clear", {"video": video_id})
    size = job.step("batch", ocr_batch)  # fixed for all attempts, because step names depend on it
    done = set(job.steps_done())
    for first in range(0, len(spans), size):
        batch = spans[first : first + size]
        name = f"frames {first} to {first + len(batch) - 1}"
        if name not in done:  # read before the transaction starts
            regions = [region for span in batch for region in regions_of(span, languages, min_confidence)]
            job.step_commit(name, _run, "segments_add", {"video": video_id, "regions": json.dumps(regions)})
        job.progress(100 * (first + len(batch)) / len(spans), step="reading", message=name)
    job.enqueue(segment_index, video_id=video_id, options=about(segment_index, video_id))
    return {"frames": len(spans)}


@app.job("vision.segment_index", queue="vision.segment_index", **STAGE)
@accounted
def segment_index(job: Job, video_id: UUID) -> None:
    """Merge consecutive segments with the same text, extract entities and refresh the search index."""
    _begin(job, video_id)
    video = {"video": video_id}
    with job.commit() as db:
        _run(db, "segments_merge", video)
        texts = db.execute(statement("segments_of"), video).fetchall()
        found = mentioned(texts)
        _run(db, "entities_clear", video)
        _run(db, "entities_add", found._asdict())
        _run(db, "video_ready", video)
        _run(db, "search_refresh", {})
        job.result = {"segments": len(texts), "entities": len(found.segments)}


@app.job("vision.clip_generate", queue="vision.clip_generate", runner="process", timeout="1h", **ERRORS)
@accounted
def clip_generate(
    job: Job,
    *,
    video_id: UUID,
    clip_id: ClipId,
    t_start: Milliseconds,
    t_end: Milliseconds,
    s3_original_path: str,
    padding_ms: Milliseconds = options.PADDING_MS,
) -> None:
    """Cut a clip out of the original, with padding. An existing clip is kept."""
    _video(job, "video_of", video_id, s3_original_path)
    path = paths.clip(video_id, clip_id)
    if not storage().exists(path):
        with storage().opened(s3_original_path, ORIGINAL) as original:
            length = t_end - t_start + 2 * padding_ms
            publish_clip(original, path, (t_start, t_end), padding_ms, _percent(job, length))
    asked = {"t_start": t_start, "t_end": t_end, "padding_ms": padding_ms}
    with job.commit() as db:
        _run(db, "clip_made", {"video": video_id, "clip": clip_id, "team": job.tenant, "path": path, **asked})
        job.result = {"s3_path": path}


@app.job("vision.clip_expire", retry=RETRY, fail_on=DENIED)
def clip_expire(job: Job) -> None:
    """Delete clips older than 30 days."""
    removed = storage().remove_older(paths.CLIPS, CLIP_LIFE, datetime.now(UTC))
    with job.commit() as db:
        _run(db, "clips_gone", {"paths": removed})
        job.result = {"removed": len(removed)}


clip_expire.on_schedule("30 3 * * *", overlap="skip", label="Delete clips older than 30 days")


def about(kind: Any, video_id: UUID) -> Any:
    """Return the job options of a stage: one active job of each kind per video."""
    return {"dedupe_key": f"{kind.kind}:{video_id}", "subject": str(video_id)}


def _begin(job: Job, video_id: UUID, path: str | None = None) -> dict[str, Any]:
    """Mark the video as processing and return its row."""
    return _video(job, "video_begin", video_id, path)


def _video(job: Job, look: str, video_id: UUID, path: str | None) -> dict[str, Any]:
    if path is not None and path != paths.original(video_id):
        raise VideoNotFound(f"{path} is not the original of video {video_id}")

    def known(db: psycopg.Connection[Any]) -> dict[str, Any]:
        row = db.execute(statement(look), {"video": video_id, "team": job.tenant}).fetchone()
        if row is None:
            raise VideoNotFound(f"video {video_id} does not exist")
        return {"duration_ms": row[0], "options": row[1]}

    return job.step_commit("video", known)  # type: ignore[no-any-return]


def _percent(job: Job, total_ms: int | None) -> Callable[[float], Any]:
    return lambda done_ms: job.progress(min(100.0, 100 * done_ms / max(total_ms or 0, 1)))


def _run(db: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> None:
    db.execute(statement(name), parameters)
