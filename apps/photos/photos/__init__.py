"""A photo library on the command line, and the definitions that run it as jobs.

The commands do not import Posthouse; the application is in ``photos.app``.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Import ``photos.app`` on first use, so that ``photos:app`` names the application."""
    if name != "app":
        raise AttributeError(f"module 'photos' has no attribute {name!r}")
    return import_module("photos.app")
