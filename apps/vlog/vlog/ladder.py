"""The quality ladder: available qualities, and the selection for a video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rung:
    """One quality: height in lines, and bit rates of video and audio."""

    name: str
    height: int
    video_bits: int
    audio_bits: int


RUNGS = {
    rung.name: rung
    for rung in (
        Rung("2160p", 2160, 15_000_000, 192_000),
        Rung("1440p", 1440, 8_000_000, 192_000),
        Rung("1080p", 1080, 5_000_000, 128_000),
        Rung("720p", 720, 2_500_000, 128_000),
        Rung("480p", 480, 1_200_000, 96_000),
        Rung("360p", 360, 700_000, 96_000),
        Rung("240p", 240, 400_000, 64_000),
        Rung("144p", 144, 200_000, 64_000),
    )
}


def checked(names: Sequence[str]) -> list[str]:
    """Return the distinct names, largest first. Raises ValueError for unknown names or none."""
    unknown = sorted(set(names) - RUNGS.keys())
    if unknown or not names:
        raise ValueError(
            f"invalid qualities: {', '.join(unknown) or 'none given'}; choose from {', '.join(RUNGS)}"
        )
    return [name for name in RUNGS if name in names]


def fitting(names: Sequence[str], height: int) -> list[str]:
    """Return the qualities not larger than the source, or the smallest if all are larger."""
    known = checked(names)
    return [name for name in known if RUNGS[name].height <= height] or known[-1:]


def size_at(rung: Rung, width: int, height: int) -> tuple[int, int]:
    """Return the frame size of a quality: not larger than the source, with even numbers for encoders."""
    lines = min(rung.height, height)
    return _even(width * lines / height), _even(lines)


def _even(value: float) -> int:
    return max(2, 2 * round(value / 2))
