"""Jobs of the application. Each stage enqueues the next one in the transaction that completes it.

transcode -> sample -> ocr, several at once -> segment_index; clip_generate on request. An upload starts the
first stage; scan starts it for files that were put into the storage directly. CPU-bound stages run in
separate processes, so that a file that crashes a decoder affects no other job. Each has its own queue.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import posthouse
from posthouse import Job
from posthouse_media import probe
from vision import options, paths, stages, video_files
from vision.db import run, sql
from vision.entities import extract_entities
from vision.frame_sampler import sample_frames
from vision.ocr import check_languages
from vision.options import ClipId, Fps, Languages, Milliseconds, ReadingOptions, Share
from vision.pipeline_log import log_attempts
from vision.publish import duration_result, publish_clip, publish_hls, publish_poster
from vision.regions import publish_thumbs, read_regions
from vision.settings import default_team, min_age_seconds, ocr_batch, ocr_chunk
from vision.spans import frame_spans, store_frames
from vision.stages import JOB_OPTIONS, OCR_OPTIONS, RETRY, STAGE_OPTIONS, stage_options
from vision.storage import DENIED, opened_original, storage

app = posthouse.App(schema=Path(__file__).with_name("schema.sql"), routes="vision.web")


@app.job("vision.scan", retry=RETRY, fail_on=DENIED, timeout="10m")
def scan(job: Job, settled: float | None = None) -> None:
    """Find new originals in the storage and enqueue their processing."""
    found = video_files.find_originals(min_age_seconds() if settled is None else settled)
    with job.commit() as db:
        originals = {"team": default_team(), "ids": list(found), "paths": list(found.values())}
        new = db.execute(sql("videos_add"), originals).fetchall()
        for video_id, team in new:
            start = stage_options(transcode, video_id) | {"tenant": team, "correlation_id": str(video_id)}
            job.enqueue(transcode, video_id=video_id, s3_original_path=found[video_id], options=start)
        job.result = {"found": len(found), "new": len(new)}


scan.on_schedule("* * * * *", missed="skip", overlap="skip", label="Scan the storage for new videos")


@app.job("vision.transcode", queue="vision.transcode", runner="process", **STAGE_OPTIONS)
@log_attempts
def transcode(job: Job, video_id: UUID, s3_original_path: str) -> None:
    """Create an HLS stream and a poster image."""
    reading_options = ReadingOptions(**stages.begin_stage(job, video_id, s3_original_path)["options"])
    with opened_original(s3_original_path) as original:
        info = probe(original)
        stated_ms = round(1000 * info.duration)
        stream_ms = job.step("hls", publish_hls, original, video_id, stages.progress_callback(job, stated_ms))
        has_poster = job.step("poster", publish_poster, original, video_id, stream_ms)
    sampled = {"video_id": video_id, "s3_original_path": s3_original_path, **reading_options.sampling()}
    job.enqueue(sample, **sampled, options=stage_options(sample, video_id))
    with job.commit() as db:
        job.result = {
            "proxy": paths.playlist(video_id),
            "thumb": paths.poster(video_id) if has_poster else None,
            "width": info.width,
            "height": info.height,
            **duration_result(stated_ms, stream_ms),
        }
        run(db, "video_transcoded", {"video": video_id, **job.result})


@app.job("vision.sample", queue="vision.sample", runner="process", **STAGE_OPTIONS)
@log_attempts
def sample(
    job: Job,
    video_id: UUID,
    s3_original_path: str,
    target_fps: Fps = options.TARGET_FPS,
    dedupe_threshold: Share = options.DEDUPE_THRESHOLD,
) -> None:
    """Extract the frames whose texts differ from those of the previous one."""
    video = stages.begin_stage(job, video_id, s3_original_path)
    reading = {"video_id": video_id, **ReadingOptions(**video["options"]).recognition()}
    with opened_original(s3_original_path) as original:
        frames = sample_frames(original, target_fps, dedupe_threshold)
        kept, sampled = store_frames(video_id, frames, stages.progress_callback(job, video["duration_ms"]))
    chunks = {first: kept[first : first + ocr_chunk()] for first in range(0, len(kept), ocr_chunk())}
    parts = [
        job.enqueue(ocr, **reading, frame_paths=chunk, options=stage_options(ocr, video_id, first))
        for first, chunk in chunks.items()
    ]
    after: Any = {"depends_on": parts, "on_dependency_failure": "wait"}  # until a failed part was retried
    job.enqueue(segment_index, video_id=video_id, options=stage_options(segment_index, video_id) | after)
    with job.commit() as db:
        run(db, "segments_clear", {"video": video_id})
        job.result = {"sampled": sampled, "frames": len(kept), "parts": len(parts)}


@app.job("vision.ocr", queue="vision.ocr", runner="process", **OCR_OPTIONS)
@log_attempts
def ocr(
    job: Job,
    video_id: UUID,
    frame_paths: list[str] | None = None,
    languages: Languages = list(options.LANGUAGES),  # noqa: B006 - never modified
    min_confidence: Share = options.MIN_CONFIDENCE,
) -> dict[str, int]:
    """Read the text in the frames, in batches. Completed batches are kept across attempts."""
    check_languages(languages)
    video = stages.begin_stage(job, video_id)
    spans = frame_spans(video_id, frame_paths, video["duration_ms"] or 0)
    size = job.step("batch", ocr_batch)  # fixed for all attempts, because step names depend on it
    done = set(job.steps_done())
    for first in range(0, len(spans), size):
        batch = spans[first : first + size]
        name = f"frames {first} to {first + len(batch) - 1}"
        if name not in done:  # read before the transaction starts
            regions = [region for span in batch for region in read_regions(span, languages, min_confidence)]
            job.step_commit(name, run, "segments_add", {"video": video_id, "regions": json.dumps(regions)})
        job.progress(100 * (first + len(batch)) / len(spans), step="reading", message=name)
    # Its dedupe key makes this a new job only if none waits.
    job.enqueue(segment_index, video_id=video_id, options=stage_options(segment_index, video_id))
    return {"frames": len(spans)}


@app.job("vision.segment_index", queue="vision.segment_index", **STAGE_OPTIONS)
@log_attempts
def segment_index(job: Job, video_id: UUID) -> None:
    """Merge consecutive segments with the same text, extract entities and add them to the search index."""
    stages.begin_stage(job, video_id)
    video = {"video": video_id}
    frames = job.step_commit("frames", lambda db: db.execute(sql("segment_starts"), video).fetchall())
    publish_thumbs(video_id, [start for (start,) in frames])
    storage().remove_prefix(paths.frames(video_id))  # a retry of this stage does not need them
    with job.commit() as db:
        run(db, "segments_merge", video)
        texts = db.execute(sql("segments_texts"), video).fetchall()
        found = extract_entities(texts)
        run(db, "entities_clear", video)
        run(db, "entities_add", found._asdict())
        run(db, "video_ready", video)
        run(db, "search_refresh", video)
        job.result = {"segments": len(texts), "entities": len(found.segments)}


@app.job("vision.clip_generate", queue="vision.clip_generate", runner="process", timeout="1h", **JOB_OPTIONS)
@log_attempts
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
    stages.load_video(job, "video_get", video_id, s3_original_path)
    path = paths.clip(video_id, clip_id)
    if not storage().exists(path):
        with opened_original(s3_original_path) as original:
            on_progress = stages.progress_callback(job, t_end - t_start + 2 * padding_ms)
            publish_clip(original, path, (t_start, t_end), padding_ms, on_progress)
    clip = {"video": video_id, "clip": clip_id, "team": job.tenant, "path": path}
    with job.commit() as db:
        run(db, "clip_upsert", clip | {"t_start": t_start, "t_end": t_end, "padding_ms": padding_ms})
        job.result = {"s3_path": path}


@app.job("vision.clip_expire", retry=RETRY, fail_on=DENIED)
def clip_expire(job: Job) -> None:
    """Delete old clips."""
    removed = storage().remove_older(paths.CLIPS, options.CLIP_LIFE, datetime.now(UTC))
    with job.commit() as db:
        run(db, "clips_delete", {"paths": removed})
        job.result = {"removed": len(removed)}


clip_expire.on_schedule("30 3 * * *", overlap="skip", label="Delete clips older than 30 days")


@app.job("vision.discard", retry=RETRY, fail_on=DENIED)
def discard(job: Job, video_id: UUID) -> None:
    """Delete the files of a deleted video."""
    video_files.discard(job, video_id)


@app.job("vision.sweep", retry=RETRY, fail_on=DENIED, timeout="1h")
def sweep(job: Job) -> None:
    """Delete files that belong to no video, and what killed processes left."""
    video_files.sweep(job)


sweep.on_schedule("15 * * * *", missed="skip", overlap="skip", label="Delete files without a video")
