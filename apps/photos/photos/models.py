"""The model that describes and tags photos: the built-in one, or your own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Protocol

from PIL import Image

from photos.errors import PermanentError

MODEL_VARIABLE = "PHOTOS_MODEL"
BUILT_IN = "photos.tagging:ColorModel"


class TaggingModel(Protocol):
    """A model without training. Trained keywords are learned from its features."""

    name: str
    """Identifies the features: photos are analyzed again when it changes."""

    def features(self, image: Image.Image) -> Mapping[str, float]:
        """Return numbers that describe an upright RGB image; always the same names."""

    def tags(self, width: int, height: int, features: Mapping[str, float]) -> Mapping[str, float]:
        """Return keywords with their confidence between 0 and 1."""


def tagging_model() -> TaggingModel:
    """Return the model that PHOTOS_MODEL names as ``module:class``, or the built-in one."""
    return _load(os.environ.get(MODEL_VARIABLE) or BUILT_IN)


@cache
def _load(path: str) -> TaggingModel:
    module, _, name = path.partition(":")
    try:
        model: TaggingModel = getattr(import_module(module), name)()
    except (ImportError, AttributeError, ValueError) as error:
        raise PermanentError(
            f"cannot load the model {path!r}: {error}; set {MODEL_VARIABLE} to module:class"
        ) from error
    return model
