"""Decodes photos, and measures their colors: about thirty numbers between 0 and 1."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from photos.models import tagging_model

SIDE = 64
THUMBNAIL_SIDE = 480
HUES = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink")
HUE_ENDS = (11, 30, 48, 115, 140, 185, 215, 240)
"""Upper bounds of Pillow's hue, which is circular from 0 to 255; the remainder is red again."""
MIN_SATURATION, MIN_BRIGHTNESS = 0.2, 0.15
"""Minimum saturation and brightness of a pixel with a nameable color."""
MAX_PIXELS = 80_000_000
"""Maximum number of pixels: a small file can decompress to gigabytes."""


@dataclass(frozen=True)
class Picture:
    width: int | None = None
    height: int | None = None
    features: Mapping[str, float] | None = None
    fault: str | None = None
    thumbnail: bytes | None = None

    def row(self) -> dict[str, Any]:
        features = None if self.features is None else json.dumps(dict(self.features))
        return {"width": self.width, "height": self.height, "features": features, "fault": self.fault}


class UnreadableImage(Exception):
    """A file that cannot be decoded as an image."""


def decode_image(content: bytes) -> Image.Image:
    """Return the upright RGB image; raise UnreadableImage if there is none."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise UnreadableImage(
                    f"{image.width} x {image.height} pixels exceed the limit of {MAX_PIXELS:,}"
                )
            return ImageOps.exif_transpose(image).convert("RGB")
    except UnidentifiedImageError:
        raise UnreadableImage("not a supported image format") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UnreadableImage(f"{type(error).__name__}: {error}"[:200]) from error


def analyze_image(content: bytes) -> Picture:
    """Describe a photo; if it cannot be decoded, ``fault`` says why."""
    try:
        upright = decode_image(content)
    except UnreadableImage as error:
        return Picture(fault=str(error))
    features = tagging_model().features(upright)
    return Picture(upright.width, upright.height, features, thumbnail=_thumbnail(upright))


def _thumbnail(image: Image.Image) -> bytes:
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


def measure_colors(image: Image.Image) -> dict[str, float]:
    small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
    hue, saturation, value = np.moveaxis(np.asarray(small.convert("HSV"), dtype=np.float32), 2, 0)
    light = value / 255
    edges = np.abs(np.diff(light, axis=0)).mean() + np.abs(np.diff(light, axis=1)).mean()
    features = {
        "light": light.mean(),
        "contrast": light.std(),
        "saturation": (saturation / 255).mean(),
        "detail": edges,
        **_hues(hue, saturation / 255, light),
        **_mean_colors(np.asarray(small, dtype=np.float32) / 255),
    }
    return {name: round(float(number), 5) for name, number in features.items()}


def _hues(hue: NDArray[Any], saturation: NDArray[Any], light: NDArray[Any]) -> dict[str, Any]:
    """Return the share of pixels per color."""
    nearest = np.searchsorted(np.array(HUE_ENDS), hue) % len(HUES)
    counts = np.bincount(
        nearest[(saturation > MIN_SATURATION) & (light > MIN_BRIGHTNESS)], minlength=len(HUES)
    )
    return {f"hue {name}": count / hue.size for name, count in zip(HUES, counts, strict=True)}


def _mean_colors(points: NDArray[Any]) -> dict[str, Any]:
    """Return the mean color of the upper, middle and lower third."""
    thirds = zip(("top", "middle", "bottom"), np.array_split(points, 3), strict=True)
    return {
        f"{position} {channel}": band[:, :, number].mean()
        for position, band in thirds
        for number, channel in enumerate(("red", "green", "blue"))
    }
