"""posthouse demo calls: transcribe and analyse calls with a known script."""

from __future__ import annotations

import asyncio
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx

from calls.handlers import analyze, extract_audio, recognize, transcribe_poll, transcribe_start
from calls.sample_calls import SCRIPTS, Line, synthesize_call, word_error_rate
from posthouse.demo import Stage

STAGES = [item.kind for item in (extract_audio, transcribe_start, recognize, transcribe_poll, analyze)]


async def demo(stage: Stage) -> dict[str, Any]:
    scripts = list(islice(cycle(SCRIPTS), stage.size or len(SCRIPTS)))
    headers = {"Authorization": f"Bearer {stage.api_key}"}
    stage.say(f"generating {len(scripts)} calls with two synthetic voices")
    async with httpx.AsyncClient(base_url=stage.api_url, headers=headers, timeout=60) as api:
        calls = [await _upload_call(stage.folder, api, script) for script in scripts]
        await stage.follow(*calls, kinds=STAGES)
        rates = [
            await _word_error_rate(api, call, script) for call, script in zip(calls, scripts, strict=True)
        ]
        figures = [(await api.get(f"/calls/{call}/analysis")).raise_for_status().json() for call in calls]
    return {
        "calls": calls,
        "word error rate": round(sum(rates) / len(rates), 3),
        "confidence": [item["confidence"] for item in figures],
        "talk": [_describe_talk(item) for item in figures],
        "silence": [f"{item['silence_seconds']} of {item['duration_seconds']} s" for item in figures],
        "keywords": [keyword["word"] for item in figures for keyword in item["keywords"][:2]],
    }


async def _upload_call(folder: Path, api: httpx.AsyncClient, script: list[Line]) -> str:
    recording = await asyncio.to_thread(synthesize_call, folder / "call.wav", script)
    content = await asyncio.to_thread(recording.read_bytes)
    response = await api.post("/calls", params={"title": script[1][1]}, content=content)
    return str(response.raise_for_status().json()["call_id"])


async def _word_error_rate(api: httpx.AsyncClient, call: str, script: list[Line]) -> float:
    transcript = (await api.get(f"/calls/{call}/transcript")).raise_for_status().json()
    recognized: dict[str, str] = {}
    for phrase in transcript["phrases"]:
        recognized[phrase["speaker"]] = f"{recognized.get(phrase['speaker'], '')} {phrase['text']}"
    return word_error_rate(script, recognized)


def _describe_talk(figures: dict[str, Any]) -> str:
    """Return the share and the speed of each speaker."""
    return " / ".join(
        f"{item['talk_share']:.0%} at {item['words_per_minute']} words per minute"
        for item in figures["speakers"].values()
    )
