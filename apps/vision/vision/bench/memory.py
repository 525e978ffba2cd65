"""Memory of a real worker while it processes a long video."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb

from posthouse.testing import database, using
from vision import paths
from vision.bench.scenes import SIZES, moving_footage, write_video
from vision.db import sql
from vision.handlers import app, sample
from vision.options import ReadingOptions
from vision.stages import stage_options

TEAM = "bench"
POLL_SECONDS = 1
Row = dict[str, Any]


def measure_memory(folder: Path, minutes: int) -> Iterator[Row]:
    """Yield the resident memory of a worker with one job process, in both halves of each stage.

    Without transcode, which is a run of ffmpeg.
    """
    video_id = uuid4()
    original = folder / paths.original(video_id)
    original.parent.mkdir(parents=True)
    pictures, _ = moving_footage(SIZES["720p"], minutes * 60, texts=True)
    write_video(original, SIZES["720p"], pictures)
    yield from _measure(folder, video_id)


def _measure(folder: Path, video_id: UUID) -> Iterator[Row]:
    with database() as url:
        asyncio.run(_enqueue(url, video_id))
        with _worker(url, folder) as process:
            sizes = _record_memory(url, process)
    for stage, measured in sizes.items():
        middle = len(measured) // 2
        first, second = max(measured[: middle or 1]), max(measured[middle:])
        yield {"stage": stage, "peak in its first half": f"{first} MB", "in its second half": f"{second} MB"}


async def _enqueue(url: str, video_id: UUID) -> None:
    path = paths.original(video_id)
    row = {"id": video_id, "team": TEAM, "owner": TEAM, "title": "", "path": path}
    async with using(app, url):
        app.migrate()
        with psycopg.connect(url) as db:
            options = ReadingOptions(target_fps=1).model_dump()
            db.execute(sql("video_register"), {**row, "options": Jsonb(options)})
        first = sample.using(tenant=TEAM, **stage_options(sample, video_id))
        await first.enqueue(video_id=video_id, s3_original_path=path, target_fps=1)


@contextmanager
def _worker(url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    env = {
        **os.environ,
        "POSTHOUSE_DATABASE_URL": url,
        "POSTHOUSE_PROCESS_SLOTS": "1",
        "VISION_STORAGE_URL": folder.as_uri(),
    }
    command = [sys.executable, "-m", "posthouse", "worker", "--app", "vision:app"]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - our own command
        try:
            yield process
        finally:
            process.terminate()


def _record_memory(url: str, process: subprocess.Popen[bytes]) -> dict[str, list[int]]:
    """Return the megabytes of the worker and all its processes, by stage, until the video is ready."""
    sizes: dict[str, list[int]] = defaultdict(list)
    with psycopg.connect(url, autocommit=True) as db:
        while process.poll() is None:
            parameters = {"video": None, "team": TEAM, "limit": 1, "offset": 0}
            with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
                video: Row = cursor.execute(sql("videos_list"), parameters).fetchone() or {}
            if video.get("status") in {"ready", "failed"}:
                break
            if video.get("stage_status") == "running":
                sizes[video["stage"]].append(_resident_megabytes(process.pid))
            time.sleep(POLL_SECONDS)
    return sizes


def _resident_megabytes(root: int) -> int:
    """Return the resident memory of a process and its descendants."""
    parents, pages = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            pages[int(folder.name)] = int((folder / "statm").read_text().split()[1])
        except OSError:  # it has ended
            continue
    tree = {root}
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(pages.get(each, 0) for each in tree) * os.sysconf("SC_PAGE_SIZE") // 2**20
