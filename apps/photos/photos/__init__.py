"""A photo library on the command line, and the definitions that run it as jobs.

The commands do not import Posthouse; the application is in ``photos.app``.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Import the application on first use, so that ``photos:app`` names it like those of other packages."""
    if name != "app":
        raise AttributeError(f"module 'photos' has no attribute {name!r}")
    from photos.app import app  # noqa: PLC0415 - commands load without Posthouse

    globals()["app"] = app
    return app
