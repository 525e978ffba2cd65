"""Thumbnails and posters."""

from __future__ import annotations

from pathlib import Path

from posthouse_media.ffmpeg import FfmpegFailed, run_ffmpeg


def write_picture(source: Path, target: Path, *, at: float, max_width: int | None = None) -> bool:
    """Write the frame at a second of the video, or else its first frame, and return whether there is one.

    The suffix of ``target`` names the format. The rotation is applied. Broken media give no picture, never
    an exception.
    """
    limit = "" if max_width is None else f",scale='min({max_width},iw)':-2"
    for seek in (("-ss", f"{max(0.0, at):.3f}"), ()):
        if _write_frame(source, target, seek, limit):
            return True
    target.unlink(missing_ok=True)
    return False


def _write_frame(source: Path, target: Path, seek: tuple[str, ...], limit: str) -> bool:
    target.unlink(missing_ok=True)
    try:
        run_ffmpeg(
            *seek, "-i", str(source), "-map", "0:V:0", "-frames:v", "1",
            "-vf", f"scale=iw*sar:ih,setsar=1{limit}", "-q:v", "3", "-update", "1", str(target),
        )  # fmt: skip
    except FfmpegFailed:
        return False
    return target.is_file() and target.stat().st_size > 0
