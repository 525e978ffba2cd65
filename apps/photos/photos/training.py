"""Trained keywords: photos in a folder named beach are positive examples of beach, all others negative."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from photos.errors import PermanentError
from photos.library import Library
from photos.models import tagging_model
from photos.progress import Progress

ROUNDS, RATE, L2_PENALTY = 400, 0.5, 0.01
THRESHOLD = 0.5
DEFAULT_MODEL = "default"
UNSORTED = "inbox"
"""The folder of photos that were not sorted into an album yet; its name is no keyword."""
Array = NDArray[Any]


def train(library: Library, name: str, min_photos: int, progress: Progress) -> dict[str, Any]:
    """Train each keyword with enough photos; replaces the model."""
    features_of = tagging_model().name
    pictures = library.rows("pictures_readable", prefix="/", model=features_of)
    counts = Counter(word for row in pictures for word in _album_keywords(row["path"]))
    keywords = {word for word, count in counts.items() if count >= min_photos}
    # Photos without a keyword are neither positive nor negative examples.
    pictures = [row for row in pictures if _album_keywords(row["path"]) & keywords]
    numbers = _feature_matrix(pictures)
    trained_rows = []
    for number, word in enumerate(sorted(keywords), 1):
        labels = np.array([word in _album_keywords(row["path"]) for row in pictures], dtype=float)
        if not labels.all():
            trained_rows.append(
                {"name": name, "features_of": features_of, "keyword": word, **_train_keyword(numbers, labels)}
            )
        progress.report("train", number, len(keywords))
    if not trained_rows:
        raise PermanentError(
            f"nothing to train: no folder has {min_photos} photos or more, and others to compare with"
        )
    library.change(("model_delete", [{"name": name}]), ("model_insert", trained_rows))
    return {"model": name, "keywords": {each["keyword"]: round(each["accuracy"], 3) for each in trained_rows}}


def retag(library: Library, name: str, progress: Progress) -> dict[str, int]:
    """Tag all photos with the keywords that the model predicts."""
    models = library.rows("model_keywords", name=name)
    if not models:
        raise PermanentError(f"model {name!r} does not exist; train it with: photos train --model {name}")
    features_of = tagging_model().name
    if models[0]["features_of"] != features_of:
        raise PermanentError(
            f"model {name!r} was trained with features of {models[0]['features_of']!r}, not {features_of!r}; "
            f"train it again: photos train --model {name}"
        )
    pictures = library.rows("pictures_readable", prefix="/", model=features_of)
    tag_count = 0
    for number, row in enumerate(pictures, 1):
        key = {"provider_id": row["provider_id"], "path": row["path"], "source": "trained"}
        tags = predicted_tags(models, json.loads(row["features"]))
        rows = [{**key, "keyword": word, "confidence": confidence} for word, confidence in tags.items()]
        library.change(("tags_delete", [key]), ("tag_insert", rows))
        tag_count += len(rows)
        progress.report("retag", number, len(pictures))
    return {"pictures": len(pictures), "tags": tag_count}


def default_model(library: Library) -> list[dict[str, Any]]:
    """Return the keywords of the default model; none if it is not trained with the current features."""
    rows = library.rows("model_keywords", name=DEFAULT_MODEL)
    return [row for row in rows if row["features_of"] == tagging_model().name]


def predicted_tags(models: Sequence[Mapping[str, Any]], features: Mapping[str, float]) -> dict[str, float]:
    """Return the keywords that a model predicts for a photo, with their confidence."""
    numbers = np.array([list(features.values())])
    confidence = {row["keyword"]: float(_predict(numbers, json.loads(row["weights"]))[0]) for row in models}
    return {keyword: value for keyword, value in confidence.items() if value > THRESHOLD}


def _album_keywords(path: str) -> set[str]:
    return {part.lower() for part in PurePosixPath(path).parts[1:-1]} - {UNSORTED}


def _feature_matrix(pictures: Sequence[Mapping[str, Any]]) -> Array:
    return np.array([list(json.loads(row["features"]).values()) for row in pictures])


def _train_keyword(numbers: Array, labels: Array) -> dict[str, Any]:
    weights = _fit(numbers, labels)
    accuracy = float(((_predict(numbers, weights) > THRESHOLD) == labels).mean())
    return {"weights": json.dumps(weights), "pictures": int(labels.sum()), "accuracy": accuracy}


def _fit(numbers: Array, labels: Array) -> dict[str, Any]:
    """Fit a logistic regression with balanced class weights."""
    mean, spread = numbers.mean(axis=0), numbers.std(axis=0) + 1e-6
    scaled = (numbers - mean) / spread
    weigh = np.where(labels > 0, 0.5 / labels.sum(), 0.5 / (1 - labels).sum())
    slope, base = np.zeros(scaled.shape[1]), 0.0
    for _ in range(ROUNDS):
        wrong = (_sigmoid(scaled @ slope + base) - labels) * weigh
        slope -= RATE * (scaled.T @ wrong + L2_PENALTY * slope)
        base -= RATE * wrong.sum()
    return {"mean": mean.tolist(), "spread": spread.tolist(), "slope": slope.tolist(), "base": float(base)}


def _predict(numbers: Array, weights: dict[str, Any]) -> Array:
    scaled = (numbers - np.array(weights["mean"])) / np.array(weights["spread"])
    return _sigmoid(scaled @ np.array(weights["slope"]) + weights["base"])


def _sigmoid(value: Array) -> Array:
    squashed: Array = 1 / (1 + np.exp(-np.clip(value, -30, 30)))
    return squashed
