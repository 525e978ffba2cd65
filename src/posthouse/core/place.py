"""Locate an error in the code: the innermost frame of the user's own code."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

_OURS = str(Path(__file__).parents[1])
_INSTALLED = ("site-packages", "dist-packages")
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


def place_of(trace: TracebackType | None) -> str | None:
    """Return ``module.function``, without a line number, so that edits above it do not change it.

    Installed packages count as libraries, except the package that contains the handler. Without a frame of
    the user's code, the innermost frame outside Posthouse is used.
    """
    frames = [frame for frame in _frames(trace) if not frame.f_code.co_filename.startswith(_OURS)]
    if not frames:
        return None
    home = _package(frames[0])
    own = [frame for frame in frames if _is_plain(frame) or _package(frame) == home]
    return _name((own or frames)[-1])


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    return (frame for frame, _ in traceback.walk_tb(trace))


def _module(frame: FrameType) -> str:
    """Return the module of a frame; for a script its file name, because ``__main__`` would be ambiguous."""
    name = str(frame.f_globals.get("__name__") or "__main__")
    return Path(frame.f_code.co_filename).stem if name == "__main__" else name


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _is_plain(frame: FrameType) -> bool:
    """Whether the code is neither installed nor part of Python."""
    path = frame.f_code.co_filename
    if any(folder in path for folder in _INSTALLED):
        return False
    return not path.startswith((*_STANDARD, "<frozen"))


def _name(frame: FrameType) -> str:
    return f"{_module(frame)}.{frame.f_code.co_qualname}"
