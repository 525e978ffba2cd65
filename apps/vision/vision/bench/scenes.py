"""Generated pictures and videos with known texts."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

SIZES = {"720p": (1280, 720), "1080p": (1920, 1080), "4K": (3840, 2160)}
FPS = 10
CAPTION_SECONDS, PAUSE_SECONDS = 3, 1
_WORDS = (
    "relay", "station", "horse", "mail", "gold", "parcel", "rider", "dawn", "dusk", "stamp", "letter",
    "bridge", "river", "market", "signal", "window", "garden", "travel", "copper", "silver",
)  # fmt: skip


def random_phrase(rng: random.Random) -> str:
    words = " ".join(rng.choice(_WORDS) for _ in range(3))
    return f"{words.capitalize()} {rng.randint(100, 999)}"


def text_page(size: tuple[int, int], text_height: int, lines: int, seed: int) -> tuple[bytes, list[str]]:
    """Return a JPEG with this many lines of a font of this height on noise, and the texts."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    width, height = size
    picture = texture(size, seed)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=text_height)
    texts = [random_phrase(rng) for _ in range(lines)]
    for row, text in enumerate(texts):
        left = rng.randint(8, max(9, int(width - font.getlength(text) - 8)))
        top = row * height // lines + rng.randint(2, max(3, height // lines - int(1.4 * text_height)))
        draw.text((left, top), text, font=font, fill="white")
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=92)
    return buffer.getvalue(), texts


def texture(size: tuple[int, int], seed: int) -> Image.Image:
    """Return a dark picture full of soft shapes, as natural footage has."""
    grain = np.random.default_rng(seed)
    coarse = Image.fromarray(
        grain.integers(0, 130, (size[1] // 24 + 1, size[0] // 24 + 1, 3), dtype=np.uint8)
    )
    fine = Image.fromarray(grain.integers(0, 90, (size[1] // 3 + 1, size[0] // 3 + 1, 3), dtype=np.uint8))
    blended = Image.blend(coarse.resize(size, Image.Resampling.BICUBIC), fine.resize(size), 0.3)
    return blended.filter(ImageFilter.GaussianBlur(1))


def moving_footage(
    size: tuple[int, int], seconds: int, *, texts: bool, seed: int = 1
) -> tuple[Iterator[Any], list[str]]:
    """Return the frames of a camera that pans, with a caption for 3 of every 4 seconds, and the captions."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    period = CAPTION_SECONDS + PAUSE_SECONDS
    captions = [random_phrase(rng) for _ in range(0, seconds, period)] if texts else []
    return _panned(size, seconds, captions, seed), captions


def _panned(size: tuple[int, int], seconds: int, captions: list[str], seed: int) -> Iterator[Image.Image]:
    width, height = size
    background = texture((width * 2, height), seed)
    font = ImageFont.load_default(size=max(16, height // 24))
    for number in range(seconds * FPS):
        at = number * max(4, width // 160) % width
        picture = background.crop((at, 0, at + width, height))
        caption, second = divmod(number // FPS, CAPTION_SECONDS + PAUSE_SECONDS)
        if captions and second < CAPTION_SECONDS:
            ImageDraw.Draw(picture).text(
                (width // 10, height * 4 // 5), captions[caption], font=font, fill="white", stroke_width=2,
                stroke_fill="black",
            )  # fmt: skip
        yield picture


def write_video(path: Path, size: tuple[int, int], pictures: Iterable[Image.Image]) -> None:
    with av.open(str(path), "w") as film:
        stream = film.add_stream("libx264", rate=FPS, options={"preset": "ultrafast", "crf": "22"})
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            film.mux(stream.encode(av.VideoFrame.from_image(picture)))  # type: ignore[no-untyped-call]
        film.mux(stream.encode())
