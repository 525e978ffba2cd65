"""`posthouse glossary`: the terms of the documentation and the console."""

from __future__ import annotations

import typer

from posthouse.cli.guarding import WrongUsage


def glossary(
    term: list[str] | None = typer.Argument(None, metavar="TERM", help="The term. Default: all terms."),
) -> None:
    """Explain the terms that Posthouse uses."""
    from posthouse.core.glossary import TERMS

    wanted = " ".join(term or ()).lower()
    if wanted and wanted not in TERMS:
        raise WrongUsage(f"unknown term {wanted!r}; list all terms with `posthouse glossary`")
    for name in [wanted] if wanted else TERMS:
        typer.echo(f"{name}: {TERMS[name]}")
