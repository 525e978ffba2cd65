"""Video properties, ffmpeg runs, pictures of videos, and the hls.js player. Independent of jobs."""

from pathlib import Path

from posthouse_media.ffmpeg import FfmpegFailed, ffmpeg_path, run_ffmpeg, stream_ffmpeg
from posthouse_media.pictures import write_picture
from posthouse_media.videos import NotAVideo, VideoInfo, is_truncated, measured_duration, probe

HLS_JS = Path(__file__).parent / "hls"
"""Folder with ``hls.js``, the light build of the player as an ES module, and its licence."""

__all__ = [
    "HLS_JS",
    "FfmpegFailed",
    "NotAVideo",
    "VideoInfo",
    "ffmpeg_path",
    "is_truncated",
    "measured_duration",
    "probe",
    "run_ffmpeg",
    "stream_ffmpeg",
    "write_picture",
]
