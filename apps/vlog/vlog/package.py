"""The output of a transcoding: a manifest, and a folder per quality. It comes from remote workers, so
everything is validated before use.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from vlog.media import PLAYLIST

MANIFEST = "manifest.json"
MASTER = "master.m3u8"
THUMBNAIL = "thumbnail.jpg"
_SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,100}\.ts")
_Size = Annotated[int, Field(gt=0, le=100_000)]


class InvalidPackage(ValueError):
    """The output of the worker is incomplete or invalid."""


class Quality(BaseModel):
    model_config = ConfigDict(extra="forbid")

    quality: Annotated[str, Field(pattern=r"^\d{3,4}p$")]
    width: _Size
    height: _Size
    bitrate: Annotated[int, Field(gt=0)]
    segments: Annotated[int, Field(gt=0)]


class Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    duration: Annotated[float, Field(gt=0)]
    width: _Size
    height: _Size
    qualities: Annotated[list[Quality], Field(min_length=1)]

    @property
    def names(self) -> list[str]:
        return [item.quality for item in self.qualities]


def read_manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValueError as error:
        raise InvalidPackage(f"invalid manifest: {error}") from error


def check_quality(folder: Path, quality: Quality) -> None:
    """Check that the playlist is complete and lists exactly the existing segments."""
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
    there = {file.name for file in folder.iterdir() if file.name != PLAYLIST and file.stat().st_size}
    if there != set(segments) or len(segments) != quality.segments:
        raise InvalidPackage(f"invalid output: the segments of {quality.quality} do not match its playlist")


def carry_over(before: Path, names: Sequence[str], folder: Path, manifest: Manifest) -> Manifest:
    """Add these qualities of an earlier output to the folder and the manifest.

    Files of an output never change, so both outputs can share them as hard links.
    """
    old = read_manifest(before / MANIFEST)
    kept = [item for item in old.qualities if item.quality in names and item.quality not in manifest.names]
    for item in kept:
        shutil.copytree(before / item.quality, folder / item.quality, copy_function=os.link)
    return manifest.model_copy(update={"qualities": [*manifest.qualities, *kept]})


def finish(folder: Path, manifest: Manifest) -> None:
    """Write the manifest and the master playlist."""
    (folder / MANIFEST).write_text(manifest.model_dump_json())
    (folder / MASTER).write_text(master_playlist(manifest.qualities))


def master_playlist(qualities: Sequence[Quality]) -> str:
    """Return the master playlist, best quality first."""
    lines = ["#EXTM3U", "#EXT-X-VERSION:3"]
    for item in sorted(qualities, key=lambda item: -item.height):
        size = f"BANDWIDTH={item.bitrate},RESOLUTION={item.width}x{item.height}"
        lines += [f'#EXT-X-STREAM-INF:{size},NAME="{item.quality}"', f"{item.quality}/{PLAYLIST}"]
    return "\n".join([*lines, ""])
