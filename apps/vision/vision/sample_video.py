"""Generates a video with known texts, for the demo and tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import av
from PIL import Image, ImageDraw, ImageFont

FPS = 12
BRIGHTNESS_GAIN = 8
_CAPTIONS = (
    "Welcome to the relay station", "Fresh horses every day", "The mail must go through",
    "Open from dawn to dusk", "Ask for the post master", "Parcels weigh less than gold", "Mind the gap",
    "Riders rest upstairs",
)  # fmt: skip
_MENTIONS = (
    "@mail_rider", "#summer_sale", "https://example.com/post", "Only $19.99 today", "@post_master",
    "#fresh_horses", "www.example.org/stamps", "Room 4711",
)  # fmt: skip


def sample_scenes(count: int) -> list[list[str]]:
    """Return this many scenes, each with unique texts."""
    scenes = [[caption, mention] for caption, mention in zip(_CAPTIONS, _MENTIONS, strict=True)]
    more = [[f"Scene number {number}", f"@rider_{number}"] for number in range(len(scenes) + 1, count + 1)]
    return (scenes + more)[:count]


def render_video(
    path: Path, scenes: Sequence[Sequence[str]], *, seconds: float = 2.0, size: tuple[int, int] = (640, 360)
) -> None:
    """Write a video. The background of each scene brightens slightly, as real footage changes constantly."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "veryfast", "crf": "20"})
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        for number, picture in enumerate(_pictures(scenes, round(seconds * FPS), size)):
            frame = av.VideoFrame.from_image(picture)  # type: ignore[no-untyped-call]
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _pictures(scenes: Sequence[Sequence[str]], frames: int, size: tuple[int, int]) -> Iterator[Image.Image]:
    width, height = size
    font = ImageFont.load_default(size=height / 10)
    for scene, texts in enumerate(scenes):
        background = [20 + 37 * scene % 60, 30 + 53 * scene % 50, 60 + 29 * scene % 70]
        for frame in range(frames):
            red, green, blue = (part + BRIGHTNESS_GAIN * frame // frames for part in background)
            picture = Image.new("RGB", size, (red, green, blue))
            draw = ImageDraw.Draw(picture)
            for line, text in enumerate(texts):
                draw.text((width / 16, height * (0.2 + 0.3 * line)), text, font=font, fill="white")
            yield picture


if __name__ == "__main__":
    render_video(Path(sys.argv[1]), sample_scenes(4))
