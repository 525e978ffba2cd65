"""Jobs of the application. ``vlog.transcode`` runs on any worker, usually a remote one; the other two run on
workers with access to the database and the library.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import posthouse
from posthouse_media import NotAVideo, probe
from vlog import encoding, hls_package, settings
from vlog.db import sql
from vlog.dispatch import channel
from vlog.library import Library, workspace
from vlog.qualities import make_qualities, make_thumbnail

app = posthouse.App(
    schema=Path(__file__).with_name("schema.sql"),
    routes="vlog.web",
    variables=settings.POSTHOUSE_VARIABLES,
    channel=channel,
)

RETRY = posthouse.Retry(0)
"""A failed attempt is repeated at once, on any worker."""


def library() -> Library:
    return Library(app.settings.data_dir)


@app.job(
    "vlog.transcode",
    queue="vlog",
    runner="process",
    prefers=["gpu"],
    retry=RETRY,
    max_attempts=settings.max_attempts(),
    fail_on=[NotAVideo, encoding.TruncatedSource],
    keep_progress=settings.keep_completed_qualities(),
)
async def transcode(
    job: posthouse.Job, video_id: int, source: str, qualities: list[str], critical: list[str] | None = None
) -> dict[str, Any]:
    """Transcode a video to the qualities that are not larger than the source, an artifact of the job.

    It fails if one of the ``critical`` qualities fails; None: if any of them fails.
    """
    job.log.info("transcoding started video=%s", video_id)
    with workspace() as folder:
        video = folder / Path(source).name
        await job.download(source, video)
        await job.progress(step="probe")
        info = await asyncio.to_thread(probe, video)
        await job.progress(step="thumbnail")
        has_thumbnail = await make_thumbnail(job, video, info)
        await job.progress(step="transcode")
        encoded = await make_qualities(job, video, info, qualities, critical)
        await job.progress(step="master_playlist")
        manifest = hls_package.Manifest(
            duration=info.duration,
            width=info.width,
            height=info.height,
            has_thumbnail=has_thumbnail,
            qualities=encoded,
        )
        await job.upload(manifest.model_dump_json().encode(), hls_package.MANIFEST)
        await job.progress(step="finalize")
        return {"qualities": manifest.names, **dataclasses.asdict(info)}


@app.job(
    "vlog.publish",
    queue="vlog-library",
    remote=False,
    retry=posthouse.Retry("5s", "30s"),
    fail_on=[hls_package.InvalidPackage],
)
async def publish(
    job: posthouse.Job,
    *,
    video_id: int,
    slug: str,
    transcode_id: UUID,
    replaces: str | None = None,
    keep: list[str] | None = None,
) -> None:
    """Download the transcoded output, validate it, move it to the library and publish it."""
    videos, version = library(), str(transcode_id)
    with videos.build_output(slug, version) as folder:
        output = await _download_output(job, transcode_id, folder)
        if replaces is not None and keep:
            previous = videos.output(slug, replaces)
            output = await asyncio.to_thread(hls_package.carry_over, previous, keep, folder, output)
        hls_package.write_playlists(folder, output)
    if replaces is not None:  # keep it for current viewers
        delay = settings.keep_replaced_seconds()
        job.enqueue(discard, slug=slug, version=replaces, options={"delay": delay})
    job.result = {"qualities": output.names}
    try:
        async with job.commit() as connection:
            await _publish_output(connection, video_id, version, output)
    except posthouse.Cancel:  # the output will never be used
        videos.discard(slug, version)
        raise


async def _download_output(job: posthouse.Job, transcode_id: UUID, folder: Path) -> hls_package.Output:
    """Download the artifacts of the transcoding job. Archives are extracted safely and validated."""
    await job.download(hls_package.MANIFEST, folder / hls_package.MANIFEST, of=transcode_id)
    manifest = hls_package.read_manifest(folder / hls_package.MANIFEST)
    if manifest.has_thumbnail:
        await job.download(hls_package.THUMBNAIL, folder / hls_package.THUMBNAIL, of=transcode_id)
    for quality in manifest.qualities:
        target, archive = folder / quality.quality, f"{quality.quality}.tar.gz"
        try:
            await job.download(archive, target, of=transcode_id, extract=True)
        except posthouse.PosthouseError as error:
            if error.code != "unsafe_archive":
                raise
            raise hls_package.InvalidPackage(f"{archive}: {error}") from error
    return await asyncio.to_thread(hls_package.measure_output, folder, manifest)


async def _publish_output(connection: Any, video_id: int, version: str, output: hls_package.Output) -> None:
    """Make this output the current one of the video, and delete the rows of the previous output. The
    artifacts of the job are deleted too: the library has them.
    """
    parameters = {"id": video_id, "version": version, **output.model_dump(mode="json")}
    parameters["qualities"] = json.dumps(parameters["qualities"])
    await connection.execute(sql("transcription_delete"), parameters)
    published = await connection.execute(sql("video_publish"), parameters)
    if await published.fetchone() is None:
        raise posthouse.Cancel("the video was deleted, or a newer job replaced this one")
    await connection.execute(sql("qualities_delete"), parameters)
    await connection.execute(sql("qualities_upsert"), parameters)
    await connection.execute(sql("artifacts_delete"), parameters)


@app.job("vlog.discard", queue="vlog-library", remote=False)
async def discard(
    job: posthouse.Job,
    slug: str,
    version: str | None = None,
    source: str | None = None,
    video_id: int | None = None,
) -> None:
    """Delete a replaced output; without a version, all files of a deleted video and its row."""
    if version is not None:
        await asyncio.to_thread(library().discard, slug, version)
        return
    await asyncio.to_thread(library().discard_all, slug, source)
    async with job.commit() as connection:
        await connection.execute(sql("video_remove"), {"id": video_id})


@app.job("vlog.sweep", queue="vlog-library", remote=False)
async def sweep(job: posthouse.Job) -> dict[str, int]:
    """Delete what killed processes and abandoned uploads left in the library."""
    since = {"seconds": settings.abandoned_seconds()}
    async with job.transaction() as connection:
        slugs = await (await connection.execute(sql("slugs_list"))).fetchall()
        await connection.execute(sql("partial_uploads_expire"), since)
        await connection.execute(sql("artifacts_expire"), since)
        open_ids = await (await connection.execute(sql("partial_uploads_open"))).fetchall()
    return {
        "outputs": await asyncio.to_thread(library().sweep, {str(row[0]) for row in slugs}),
        "uploads": await asyncio.to_thread(library().sweep_uploads, {str(row[0]) for row in open_ids}),
    }


sweep.on_schedule("17 * * * *", missed="skip", overlap="skip", label="Delete abandoned files of videos")
