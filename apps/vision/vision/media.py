"""ffmpeg: HLS streams and clips. Rotation is applied: ffmpeg turns frames before it scales them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from posthouse_media import run_ffmpeg

SEGMENT_SECONDS = 4
MAX_PROXY_SIDE = 720
"""Most pixels of the shorter side of the stream."""
POSTER_POSITION = 0.1
"""Position of the poster as a share of the duration; the first frame is often black."""
_VIDEO = ("-map", "0:V:0", "-map", "0:a:0?")  # V: no attached pictures
_H264 = ("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p")
_AAC = ("-c:a", "aac", "-b:a", "128k", "-ac", "2")
_EVEN = "scale=trunc(iw/2)*2:trunc(ih/2)*2"

ProgressCallback = Callable[[float], object]
"""Callback with the milliseconds processed."""


def write_hls(video: Path, folder: Path, playlist: str, on_progress: ProgressCallback) -> None:
    """Write a playlist and its segments, not larger than the original."""
    share = f"min(1,{MAX_PROXY_SIDE}/min(iw,ih))"
    run_ffmpeg(
        "-i", str(video), *_VIDEO,
        "-vf", f"scale='trunc(iw*{share}/2)*2':'trunc(ih*{share}/2)*2'",
        *_H264, *_AAC, "-force_key_frames", f"expr:gte(t,n_forced*{SEGMENT_SECONDS})",
        "-f", "hls", "-hls_time", str(SEGMENT_SECONDS), "-hls_playlist_type", "vod",
        "-hls_segment_filename", str(folder / "segment_%05d.ts"), str(folder / playlist),
        on_progress=lambda seconds: on_progress(1000 * seconds),
    )  # fmt: skip


def write_clip(video: Path, clip: Path, start_ms: int, end_ms: int, on_progress: ProgressCallback) -> None:
    """Write a clip. It is encoded again, because a copy could start only at key frames."""
    run_ffmpeg(
        "-ss", f"{start_ms / 1000:.3f}", "-i", str(video), "-t", f"{(end_ms - start_ms) / 1000:.3f}",
        *_VIDEO, "-vf", _EVEN, *_H264, *_AAC, "-movflags", "+faststart", str(clip),
        on_progress=lambda seconds: on_progress(1000 * seconds),
    )  # fmt: skip


def clamp_with_padding(t_start: int, t_end: int, padding_ms: int, duration_ms: int) -> tuple[int, int]:
    """Return the range with padding, limited to the duration of the video."""
    return max(0, t_start - padding_ms), min(duration_ms, t_end + padding_ms)
