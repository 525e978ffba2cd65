"""Tags that need no training: color, brightness and shape."""

from __future__ import annotations

import json
from collections.abc import Mapping

from PIL import Image

from photos.features import HUES, Picture, measure_colors
from photos.library import Library
from photos.models import tagging_model
from photos.progress import Progress

COLOR_SHARE = 0.3
DARK, BRIGHT = 0.25, 0.75
PALE = 0.08
PANORAMA = 2.0
SMOOTH = 0.01


class ColorModel:
    """The built-in model: color, brightness and shape."""

    name = "color"

    def features(self, image: Image.Image) -> dict[str, float]:
        return measure_colors(image)

    def tags(self, width: int, height: int, features: Mapping[str, float]) -> dict[str, float]:
        tags = {name: features[f"hue {name}"] for name in HUES if features[f"hue {name}"] >= COLOR_SHARE}
        tags[_shape(width / height)] = 1.0
        if features["light"] < DARK:
            tags["dark"] = 1 - features["light"]
        elif features["light"] > BRIGHT:
            tags["bright"] = features["light"]
        if features["saturation"] < PALE:
            tags["black and white"] = 1 - features["saturation"]
        if features["detail"] < SMOOTH:
            tags["smooth"] = 1 - features["detail"] / SMOOTH
        return tags


def automatic_tags(picture: Picture) -> dict[str, float]:
    """Return keywords with their confidence."""
    if picture.features is None or not picture.width or not picture.height:
        return {}
    return dict(tagging_model().tags(picture.width, picture.height, picture.features))


def _shape(ratio: float) -> str:
    if ratio >= PANORAMA:
        return "panorama"
    if ratio > 1:
        return "landscape"
    return "portrait" if ratio < 1 else "square"


def tag_all(library: Library, prefix: str, progress: Progress) -> dict[str, int]:
    """Tag all photos below a path again."""
    pictures = library.rows("pictures_readable", prefix=prefix, model=tagging_model().name)
    tag_count = 0
    for number, row in enumerate(pictures, 1):
        key = {"provider_id": row["provider_id"], "path": row["path"], "source": "automatic"}
        tags = automatic_tags(Picture(row["width"], row["height"], json.loads(row["features"])))
        rows = [{**key, "keyword": keyword, "confidence": confidence} for keyword, confidence in tags.items()]
        library.change(("tags_delete", [key]), ("tag_insert", rows))
        tag_count += len(rows)
        progress.report("tag", number, len(pictures))
    return {"pictures": len(pictures), "tags": tag_count}
