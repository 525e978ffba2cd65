"""posthouse version."""

from __future__ import annotations

import typer


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("posthouse"))
