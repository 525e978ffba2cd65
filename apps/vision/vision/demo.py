"""posthouse demo vision: process a video with known texts, then search it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from posthouse.demo import Stage
from vision.entities import normalize
from vision.handlers import clip_generate, ocr, sample, segment_index, transcode
from vision.sample_video import render_video, sample_scenes

SCENES = 8
STAGES = [transcode.kind, sample.kind, ocr.kind, segment_index.kind, clip_generate.kind]


async def demo(stage: Stage) -> dict[str, Any]:
    scenes = sample_scenes(stage.size or SCENES)
    stage.say(f"generating a video with {len(scenes)} scenes, two texts each")
    video = stage.folder / "film.mp4"
    await asyncio.to_thread(render_video, video, scenes)
    headers = {"Authorization": f"Bearer {stage.api_key}"}
    async with httpx.AsyncClient(base_url=stage.api_url, headers=headers, timeout=60) as api:
        video_id = await _upload(api, video)
        await stage.follow(video_id, kinds=STAGES)
        found = await _compare(api, video_id, scenes)
        found["searches"] = [await _search(api, video_id, query) for query in _queries(scenes)]
        found["clip"] = await _create_clip(stage, api, video_id, scenes[-1][0])
    return {"video": video_id, **found}


async def _upload(api: httpx.AsyncClient, video: Path) -> str:
    new = (await api.post("/vision/videos", json={"title": "The relay station"})).raise_for_status().json()
    upload = f"/vision/videos/{new['video_id']}/original"
    (await api.put(upload, content=await asyncio.to_thread(video.read_bytes))).raise_for_status()
    return str(new["video_id"])


async def _compare(api: httpx.AsyncClient, video_id: str, scenes: list[list[str]]) -> dict[str, Any]:
    """Compare the texts found with the texts in the video."""
    segments = await _get(api, f"/vision/videos/{video_id}/segments", limit=500)
    read = {normalize(segment["text"]) for segment in segments}
    written = {normalize(text) for texts in scenes for text in texts}
    return {
        "texts": len(read),
        "recall": round(len(read & written) / len(written), 3),
        "precision": round(len(read & written) / max(len(read), 1), 3),
    }


def _queries(scenes: list[list[str]]) -> list[str]:
    first, *others = scenes
    return [first[0].split()[0].lower(), first[1], *(texts[1] for texts in others[:3])]


async def _search(api: httpx.AsyncClient, video_id: str, query: str) -> str:
    hits = await _get(api, "/vision/search", q=query, video_id=video_id)
    places = ", ".join(f"{hit['t_start'] / 1000:.1f}-{hit['t_end'] / 1000:.1f} s" for hit in hits)
    return f"{query} at {places or 'no position'}"


async def _create_clip(stage: Stage, api: httpx.AsyncClient, video_id: str, text: str) -> str:
    """Create a clip of the time at which a text is visible."""
    (hit, *_) = await _get(api, "/vision/search", q=text, video_id=video_id)
    body = {"video_id": video_id, "t_start": hit["t_start"], "t_end": hit["t_end"], "padding_ms": 500}
    made = (await api.post("/vision/clips", json=body)).raise_for_status().json()
    await stage.follow(video_id, kinds=STAGES)
    clip = await _get(api, f"/vision/clips/{video_id}/{made['clip_id']}")
    return str(clip["s3_path"])


async def _get(api: httpx.AsyncClient, path: str, **query: Any) -> Any:
    return (await api.get(path, params=query)).raise_for_status().json()
