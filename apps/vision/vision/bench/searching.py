"""Search over many segments: rows that a query touches, and the time to add a video."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg

from posthouse.testing import database, using
from vision.db import sql
from vision.handlers import app

VIDEOS = 100
TEAMS = ("acme", "globex")
QUERIES = ("word777", "word777 word12", "word7", "common", "nowhere")
RUNS = 5
"""Runs per query, of which the fastest counts."""
Connection = psycopg.Connection[Any]
Row = dict[str, Any]


def measure_search(segments: int) -> Iterator[Row]:
    """Yield the rows that queries touch, and the milliseconds that they take."""
    with database() as url:
        asyncio.run(_migrate(url))
        with psycopg.connect(url) as db:
            adding = [_add_video(db, TEAMS[number % 2], segments // VIDEOS) for number in range(VIDEOS)]
            db.commit()
            db.execute("analyze vision.segments, vision.search_materialized")
            yield from (_search(db, text) for text in QUERIES)
        yield _row(f"(a video of {segments // VIDEOS:,} segments is added)", adding[-1])


async def _migrate(url: str) -> None:
    async with using(app, url):
        app.migrate()


def _add_video(db: Connection, team: str, count: int) -> float:
    """Add a video and return the seconds that its indexing takes."""
    video_id = uuid4()
    named = {"video": video_id, "team": team}
    db.execute(sql("bench_video"), {**named, "path": str(video_id)})
    db.execute(sql("bench_segments"), {**named, "count": count})
    started = time.monotonic()
    db.execute(sql("search_refresh"), {"video": video_id})
    return time.monotonic() - started


def _search(db: Connection, text: str) -> Row:
    parameters: Row = {"words": text, "terms": [], "team": TEAMS[0], "video": None, "limit": 50, "offset": 0}
    before = _counters(db)
    hits = len(db.execute(sql("search"), parameters).fetchall())
    counted = [after - first for first, after in zip(before, _counters(db), strict=True)]
    return _row(text, min(_seconds(db, parameters) for _ in range(RUNS)), hits, *counted)


def _seconds(db: Connection, parameters: Row) -> float:
    started = time.monotonic()
    db.execute(sql("search"), parameters)
    return time.monotonic() - started


def _counters(db: Connection) -> list[int]:
    return [int(count) for count in db.execute(sql("bench_buffers")).fetchone() or ()]


def _row(text: str, seconds: float, *figures: int) -> Row:
    hits, table, index, touched = figures or ("", "", "", "")
    return {
        "query": text,
        "hits on the first page": hits,
        "scans of the table": table,
        "of the index": index,
        "rows touched": touched,
        "ms": f"{1000 * seconds:.0f}",
    }
