"""The quality ladder: available qualities, and the selection for a video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SOURCE = "source"
"""The quality with the size of the source."""
_NEAR_SOURCE = 0.9
"""A quality of at least this share of the source's size makes one at source size needless."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One quality: lines of the short side, and bit rates of video and audio."""

    name: str
    lines: int
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
NAMES = (SOURCE, *RUNGS)


def validate_qualities(names: Sequence[str]) -> list[str]:
    """Return the distinct names, largest first. Raises ValueError for unknown names or none."""
    unknown = sorted(set(names) - set(NAMES))
    if unknown or not names:
        raise ValueError(
            f"invalid qualities: {', '.join(unknown) or 'none given'}; choose from {', '.join(NAMES)}"
        )
    return [name for name in NAMES if name in names]


def select_rungs(names: Sequence[str], width: int, height: int) -> list[Rung]:
    """Return the qualities not larger than the source, by its short side, or the smallest if all are larger.

    ``source`` is included if no other one has about that size.
    """
    short, known = min(width, height), validate_qualities(names)
    named = [RUNGS[name] for name in known if name != SOURCE]
    fit = [rung for rung in named if rung.lines <= short]
    if SOURCE in known and all(rung.lines < _NEAR_SOURCE * short for rung in fit):
        return [_at_source_size(short), *fit]
    return fit or named[-1:]


def _at_source_size(short: int) -> Rung:
    """Return a rung with the bits per pixel of the next larger one."""
    larger = [rung for rung in RUNGS.values() if rung.lines >= short]
    like = larger[-1] if larger else next(iter(RUNGS.values()))
    return Rung(SOURCE, short, round(like.video_bits * (short / like.lines) ** 2), like.audio_bits)


def frame_size(rung: Rung, width: int, height: int) -> tuple[int, int]:
    """Return the frame size of a quality: not larger than the source, with even numbers for encoders."""
    scale = min(1.0, rung.lines / min(width, height))
    return _even(width * scale), _even(height * scale)


def _even(value: float) -> int:
    return max(2, 2 * round(value / 2))
