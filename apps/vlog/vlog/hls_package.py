"""The output of a transcoding: a manifest, and a folder per quality. It comes from remote workers, so
everything is validated before use.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from vlog.encoding import PLAYLIST

MANIFEST = "manifest.json"
MASTER = "master.m3u8"
THUMBNAIL = "thumbnail.jpg"
_SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,100}\.ts")
_SEGMENT_DURATION = re.compile(r"#EXTINF:(\d+(?:\.\d+)?),?")
_Size = Annotated[int, Field(gt=0, le=100_000)]


class InvalidPackage(ValueError):
    """The output of the worker is incomplete or invalid."""


class Quality(BaseModel):
    model_config = ConfigDict(extra="forbid")

    quality: Annotated[str, Field(pattern=r"^(\d{3,4}p|source)$")]
    width: _Size
    height: _Size
    segments: Annotated[int, Field(gt=0)]
    codecs: Annotated[str, Field(pattern=r"^[A-Za-z0-9.,]{1,100}$")]


class MeasuredQuality(Quality):
    """A quality in the library. Bit rates are measured: the average, and that of the largest segment."""

    bitrate: Annotated[int, Field(gt=0)]
    peak_bitrate: Annotated[int, Field(gt=0)]


class _Video(BaseModel):
    model_config = ConfigDict(extra="forbid")

    duration: Annotated[float, Field(gt=0)]
    width: _Size
    height: _Size
    has_thumbnail: bool = False


class Manifest(_Video):
    """What a worker reports."""

    qualities: Annotated[list[Quality], Field(min_length=1)]

    @property
    def names(self) -> list[str]:
        return [item.quality for item in self.qualities]


class Output(_Video):
    """What the library has."""

    qualities: list[MeasuredQuality]

    @property
    def names(self) -> list[str]:
        return [item.quality for item in self.qualities]


def read_manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValueError as error:
        raise InvalidPackage(f"invalid manifest: {error}") from error


def measure_output(folder: Path, manifest: Manifest) -> Output:
    """Check all qualities in a folder and measure their bit rates."""
    qualities = [check_quality(folder / item.quality, item) for item in manifest.qualities]
    return Output(**{**manifest.model_dump(), "qualities": qualities})


def check_quality(folder: Path, quality: Quality) -> MeasuredQuality:
    """Check that the playlist is complete and lists exactly the existing segments; measure its bit rates."""
    playlist = folder / PLAYLIST
    if not playlist.is_file():
        raise InvalidPackage(f"invalid output: {quality.quality} has no {PLAYLIST}")
    lines = playlist.read_text(errors="replace").splitlines()
    segments = [line for line in lines if line and not line.startswith("#")]
    if not lines or lines[0] != "#EXTM3U" or "#EXT-X-ENDLIST" not in lines:
        raise InvalidPackage(f"invalid output: the playlist of {quality.quality} is incomplete")
    if any(_SEGMENT.fullmatch(name) is None for name in segments):
        raise InvalidPackage(
            f"invalid output: the playlist of {quality.quality} contains invalid segment names"
        )
    existing = {file.name for file in folder.iterdir() if file.name != PLAYLIST and file.stat().st_size}
    if existing != set(segments) or len(segments) != quality.segments:
        raise InvalidPackage(f"invalid output: the segments of {quality.quality} do not match its playlist")
    durations = [float(found[1]) for line in lines if (found := _SEGMENT_DURATION.match(line))]
    if len(durations) != len(segments) or not all(durations):
        raise InvalidPackage(f"invalid output: the playlist of {quality.quality} has invalid durations")
    bits = [8 * (folder / name).stat().st_size for name in segments]
    peak = max(size / length for size, length in zip(bits, durations, strict=True))
    average = sum(bits) / sum(durations)
    return MeasuredQuality(**quality.model_dump(), bitrate=math.ceil(average), peak_bitrate=math.ceil(peak))


def carry_over(before: Path, names: Sequence[str], folder: Path, output: Output) -> Output:
    """Add these qualities of an earlier output to the folder and the output.

    Files of an output never change, so both outputs can share them as hard links.
    """
    previous = Output.model_validate_json((before / MANIFEST).read_bytes())
    kept = [item for item in previous.qualities if item.quality in names and item.quality not in output.names]
    for item in kept:
        shutil.copytree(before / item.quality, folder / item.quality, copy_function=os.link)
    return output.model_copy(update={"qualities": [*output.qualities, *kept]})


def write_playlists(folder: Path, output: Output) -> None:
    """Write the manifest and the master playlist."""
    (folder / MANIFEST).write_text(output.model_dump_json())
    (folder / MASTER).write_text(master_playlist(output.qualities))


def master_playlist(qualities: Sequence[MeasuredQuality]) -> str:
    """Return the master playlist, best quality first."""
    lines = ["#EXTM3U", "#EXT-X-VERSION:3", "#EXT-X-INDEPENDENT-SEGMENTS"]
    for item in sorted(qualities, key=lambda item: -item.height):
        rates = f"BANDWIDTH={item.peak_bitrate},AVERAGE-BANDWIDTH={item.bitrate}"
        picture = f'CODECS="{item.codecs}",RESOLUTION={item.width}x{item.height},NAME="{item.quality}"'
        lines += [f"#EXT-X-STREAM-INF:{rates},{picture}", f"{item.quality}/{PLAYLIST}"]
    return "\n".join([*lines, ""])
