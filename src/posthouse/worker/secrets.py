"""Secrets that commands refer to by name. Read for each run, so that a new value applies at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from posthouse.core.secret_names import variable_of
from posthouse.errors import CommandUnstartable


def find_secrets(names: Iterable[str], folder: str) -> dict[str, str]:
    """Return the values of these secrets, from the environment or from files of that name in the folder."""
    return {name: _find(name, folder) for name in names}


def _find(name: str, folder: str) -> str:
    variable = variable_of(name)
    if variable in os.environ:
        return os.environ[variable]
    try:
        value = (Path(folder) / name).read_text() if folder else None
    except FileNotFoundError:
        value = None
    except (OSError, ValueError) as error:  # the text of a decoding error would show a part of it
        raise CommandUnstartable(f"cannot read the secret {name}:  {_why(error)}") from None
    if value is None:
        place = f"a file {name} in {folder}" if folder else f"a file {name} in POSTHOUSE_SECRETS_DIR"
        raise CommandUnstartable(
            f"secret {name} does not exist on this worker: set {variable}, or put {place}"
        )
    return value.removesuffix("\n").removesuffix("\r")


def _why(error: Exception) -> str:
    return (error.strerror or "") if isinstance(error, OSError) else "it is not valid UTF-8"
