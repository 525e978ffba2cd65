"""The qualities and the thumbnail of a video, encoded and uploaded by its transcoding job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import posthouse
from posthouse_media import FfmpegFailed, VideoInfo, write_picture
from vlog import encoding, hls_package, settings
from vlog.ladder import Rung, frame_size, select_rungs


async def make_thumbnail(job: posthouse.Job, video: Path, info: VideoInfo) -> bool:
    picture = video.parent / hls_package.THUMBNAIL
    is_written = await asyncio.to_thread(write_picture, video, picture, at=info.duration / 10, max_width=640)
    if is_written:
        await job.upload(picture)
    else:
        job.log.warning("no thumbnail: no frame could be read")
    return is_written


async def make_qualities(
    job: posthouse.Job,
    video: Path,
    info: VideoInfo,
    qualities: Sequence[str],
    critical: Sequence[str] | None,
) -> list[hls_package.Quality]:
    """Encode all qualities, several in parallel. If one fails, the others are still completed."""
    wanted = {rung.name: rung for rung in select_rungs(qualities, info.width, info.height)}
    totals = dict.fromkeys(wanted, encoding.expected_segments(info.duration))
    pixels = {name: float(rung.lines**2) for name, rung in wanted.items()}
    parts = await job.parts(qualities, totals=totals, weights=pixels)
    limiter = asyncio.Semaphore(settings.parallel_qualities())

    async def encode_part(part: Any) -> None:
        if part.ended:  # completed by an earlier attempt
            job.log.info("quality already completed by an earlier attempt quality=%s", part.name)
        elif part.name not in wanted:
            await part.skip("the source has another size")
        else:
            async with limiter:
                await _encode(job, part, video, info, wanted[part.name])

    results = await asyncio.gather(*map(encode_part, reversed(parts)), return_exceptions=True)
    failed = {part.name: error for part, error in zip(reversed(parts), results, strict=True) if error}
    _check_failures(job, failed, list(wanted), critical)
    done = [part for part in parts if part.name in wanted and part.name not in failed]
    return [hls_package.Quality.model_validate(part.result) for part in done]


def _check_failures(
    job: posthouse.Job,
    failed: Mapping[str, BaseException],
    wanted: Sequence[str],
    critical: Sequence[str] | None,
) -> None:
    """Raise the first error that the video cannot be published with; log the others."""
    all_failed = failed.keys() >= set(wanted)
    for name, error in failed.items():
        if critical is None or name in critical or all_failed or not isinstance(error, FfmpegFailed):
            raise error
    for name, error in failed.items():
        job.log.warning("quality left out because it failed quality=%s error=%s", name, error)


async def _encode(job: posthouse.Job, part: Any, video: Path, info: VideoInfo, rung: Rung) -> None:
    folder = video.parent / part.name
    async with part:
        async for progress in encoding.encode(video, folder, rung, info):
            await part.progress(progress.percent, done=progress.segments)
        await job.upload(folder, f"{part.name}.tar.gz")
        width, height = frame_size(rung, info.width, info.height)
        part.total = encoding.segment_count(folder)
        codecs = await asyncio.to_thread(encoding.codecs_of, folder)
        quality = hls_package.Quality(
            quality=part.name, width=width, height=height, segments=part.total, codecs=codecs
        )
        await part.complete(quality.model_dump())
        job.log.info("quality completed quality=%s", part.name)
