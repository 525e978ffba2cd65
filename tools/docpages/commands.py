"""docs/reference/commands.md, generated from the commands of the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer.main

from docpages.markdown import opening, table, text
from posthouse.cli.main import cli
from posthouse.cli.options import ListGroup

INTRODUCTION = """\
Every command has `--help`. Commands that use [settings](settings.md) read them from `posthouse.toml` and the
environment; a flag overrides both. Errors are printed as one line, with an exit code other than 0.
"""


def page() -> str:
    root = typer.main.get_command(cli)
    found = list(_walk(root, ["posthouse"]))
    overview = [(f"[`{name}`](#{_anchor(name)})", _summary(command)) for name, command in found]
    return text(
        [
            *opening("Commands", "posthouse.cli"),
            INTRODUCTION,
            *table(["command", "summary"], overview),
            *(line for name, command in found for line in _section(name, command)),
        ]
    )


def _walk(command: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield all executable commands. Groups are detected by attribute: typer may bundle its own click."""
    children = getattr(command, "commands", None)
    if children is None or getattr(command, "invoke_without_command", False):
        yield " ".join(path), command
    for name, child in (children or {}).items():
        if name == "list" and isinstance(command, ListGroup):
            child.help += f"\n\n`{' '.join(path)}` without a command does the same."
        if not child.hidden:
            yield from _walk(child, [*path, name])


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    options = [item for item in command.params if item.param_type_name == "option" and not item.hidden]
    yield f"## {name}"
    yield ""
    yield "```text"
    yield " ".join([name, *(_usage(item) for item in arguments), *(["[OPTIONS]"] if options else [])])
    yield "```"
    yield ""
    yield from _description(command.help)
    rows = [*(_argument_row(item) for item in arguments), *(_option_row(item) for item in options)]
    if rows:
        yield from table(["parameter", "default", "description"], rows)


def _usage(argument: Any) -> str:
    name = _metavar(argument)
    shown = name if argument.required else f"[{name}]"
    return f"{shown}..." if argument.nargs == -1 and not name.endswith("...") else shown


def _argument_row(argument: Any) -> tuple[str, str, str]:
    return f"`{_metavar(argument)}`", _default(argument), _prose(getattr(argument, "help", ""))


def _option_row(option: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" `{_metavar(option)}`"
    return f"{names}{value}", _default(option), _prose(option.help)


def _metavar(parameter: Any) -> str:
    """Return the placeholder of the value: the metavar, or the name of the parameter."""
    if parameter.metavar:
        return str(parameter.metavar)
    longest: str = max(parameter.opts, key=len)
    return longest.lstrip("-").replace("-", "_").upper()


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if callable(default) or default is None or default in ([], (), "", False):
        return ""
    if "UNSET" in str(default):  # click's marker for "not given"
        return ""
    return f"`{default}`"


def _description(help_text: str | None) -> Iterator[str]:
    """Yield the help as paragraphs. After "Examples:", each paragraph is a command."""
    prose, heading, examples = _unmarked(help_text).partition("Example")
    for paragraph in filter(None, prose.split("\n\n")):
        yield _prose(paragraph)
        yield ""
    if heading:
        yield "```text"
        yield from (_prose(line) for line in examples.partition(":")[2].split("\n\n") if line.strip())
        yield "```"
        yield ""


def _unmarked(help_text: str | None) -> str:
    """Remove the markup for bold text, which is meant for terminals."""
    return re.sub(r"\[/?b\]", "", inspect.cleandoc(help_text or ""))


def _prose(text_or_none: str | None) -> str:
    return " ".join(_unmarked(text_or_none).split())


def _summary(command: Any) -> str:
    return _prose(_unmarked(command.help).partition("\n\n")[0])


def _anchor(name: str) -> str:
    return name.replace(" ", "-")
