"""How the user can start this program again: commands that are printed must work as printed."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

NAME = "posthouse"


def own_command() -> str:
    """Return ``posthouse`` if the shell finds this installation by that name, else a path to it."""
    return _command(absolute=False)


def absolute_command() -> str:
    """Return the same for use in another folder: a path is absolute."""
    return _command(absolute=True)


def shell_path(path: Path, *, absolute: bool) -> str:
    """Return a path for a shell, relative to the current folder if it lies below it."""
    here = Path.cwd()
    shown = path.relative_to(here) if not absolute and path.is_relative_to(here) else path
    return shlex.quote(str(shown))


def _command(*, absolute: bool) -> str:
    interpreter = Path(sys.executable)
    script = interpreter.parent / NAME
    if not script.is_file():
        return f"{shell_path(interpreter, absolute=absolute)} -m {NAME}"
    found = shutil.which(NAME)
    if found is not None and Path(found).resolve() == script.resolve():
        return NAME
    return shell_path(script, absolute=absolute)
