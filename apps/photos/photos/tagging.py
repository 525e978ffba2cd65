"""Tags that need no training: colour, brightness and shape."""

from __future__ import annotations

import json

from photos.features import HUES, Picture
from photos.library import Library
from photos.progress import Progress

COLOUR_SHARE = 0.3
DARK, BRIGHT = 0.25, 0.75
PALE = 0.08
PANORAMA = 2.0
SMOOTH = 0.01


def tags_of(picture: Picture) -> dict[str, float]:
    """Return keywords with their confidence."""
    if picture.features is None or not picture.width or not picture.height:
        return {}
    features = picture.features
    found = {name: features[f"hue {name}"] for name in HUES if features[f"hue {name}"] >= COLOUR_SHARE}
    found[_shape(picture.width / picture.height)] = 1.0
    if features["light"] < DARK:
        found["dark"] = 1 - features["light"]
    elif features["light"] > BRIGHT:
        found["bright"] = features["light"]
    if features["saturation"] < PALE:
        found["black and white"] = 1 - features["saturation"]
    if features["detail"] < SMOOTH:
        found["smooth"] = 1 - features["detail"] / SMOOTH
    return found


def _shape(ratio: float) -> str:
    if ratio >= PANORAMA:
        return "panorama"
    if ratio > 1:
        return "landscape"
    return "portrait" if ratio < 1 else "square"


def tag_all(library: Library, prefix: str, progress: Progress) -> dict[str, int]:
    """Tag all photos below a path again."""
    pictures = library.rows("readable_pictures", prefix=prefix)
    given = 0
    for number, row in enumerate(pictures, 1):
        place = {"provider_id": row["provider_id"], "path": row["path"]}
        tags = tags_of(Picture(row["width"], row["height"], json.loads(row["features"])))
        kept = [{**place, "keyword": keyword, "confidence": sure} for keyword, sure in tags.items()]
        library.change(("drop_seen_tags", [place]), ("keep_seen_tag", kept))
        given += len(kept)
        progress.tell("tag", number, len(pictures))
    return {"pictures": len(pictures), "tags": given}
