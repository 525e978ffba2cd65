"""The environment of a command: empty except for what its definition names."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from posthouse.commands.spec import CommandSpec
from posthouse.errors import CommandUnstartable

BESIDE = Path(sys.executable).parent
"""Programs of packages installed with Posthouse: searched last, even if no virtual environment is active."""


def environment(spec: CommandSpec, secrets: Mapping[str, str], outside: Mapping[str, str]) -> dict[str, str]:
    """Return the environment. ``secrets`` maps the names in the definition to values, ``outside`` is the
    worker's environment.
    """
    inherited = {name: outside[name] for name in spec.inherit_env if name in outside}
    if "PATH" in inherited:
        inherited["PATH"] = f"{inherited['PATH']}{os.pathsep}{BESIDE}"
    return {**inherited, **spec.env, **_resolved(spec, secrets)}


def _resolved(spec: CommandSpec, secrets: Mapping[str, str]) -> dict[str, str]:
    if missing := sorted({name for name in spec.secrets.values() if name not in secrets}):
        raise CommandUnstartable(
            f"the worker lacks the secrets {', '.join(missing)}; set them or change the definition"
        )
    values = {variable: secrets[name] for variable, name in spec.secrets.items()}
    for variable, value in values.items():
        if "\x00" in value:
            raise CommandUnstartable(f"the secret for {variable} contains a NUL character")
    return values
