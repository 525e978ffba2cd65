"""Options that several commands share, and values read from options and files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import typer
from typer.core import TyperGroup

from posthouse.cli.guarding import UsageError
from posthouse.errors import ConfigurationError, InvalidFilter, InvalidJob, InvalidKey, InvalidTenant


class ListGroup(TyperGroup):
    """A group of commands whose `list` needs no name: `posthouse queues --json` lists queues."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names_command = args and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        if names_command or ctx.resilient_parsing:  # the shell completes the name of a command
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, ["list", *args])


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Report invalid values from the command line as usage errors (exit code 2)."""
    try:
        yield
    except (ConfigurationError, InvalidFilter, InvalidJob, InvalidKey, InvalidTenant) as error:
        raise UsageError(str(error)) from None


def options_from(read_fields: Callable[..., dict[str, Any]]) -> Callable[[Any], Any]:
    """Give a command the options of a function, in place of its parameter ``fields``: it gets the result."""
    shared = inspect.signature(read_fields, eval_str=True).parameters

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for name, own in inspect.signature(command, eval_str=True).parameters.items():
            parameters += shared.values() if name == "fields" else [own.replace(kind=own.KEYWORD_ONLY)]

        def run(**given: Any) -> None:
            command(fields=read_fields(**{name: given.pop(name) for name in shared}), **given)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def json_option() -> Any:
    return typer.Option(False, "--json", help="Print one JSON document to stdout.")


def app_option() -> Any:
    return typer.Option(
        [],
        "--app",
        metavar="MODULE:NAME",
        help="Application, e.g. shop.jobs:app; repeatable. Default: the setting [b]app[/b].",
    )


def commands_option() -> Any:
    return typer.Option(
        None,
        "--commands/--no-commands",
        help="Run command jobs that operators defined. Default: the setting [b]commands[/b].",
        show_default=False,
    )


def log_json_option() -> Any:
    return typer.Option(
        None, "--log-json/--log-text", help="Log format. Default: text on a terminal, JSON otherwise."
    )


def log_level_option() -> Any:
    return typer.Option("info", metavar="LEVEL", help="Log level: debug, info, warning or error.")


def id_of(thing: str, text: str, listing: str = "") -> UUID:
    """Return the id; ``listing`` is the command that lists them, unless it is ``<thing>s list``."""
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a {thing} id; expected one like 01890a5d-ac96-774b-bcce-b302099a8057; "
            f"list them with `posthouse {listing or f'{thing}s list'}`"
        ) from None


def current_actor() -> str:
    """Return the actor for the audit log: ``cli:anna@studio``, or the setting ``actor``."""
    from getpass import getuser
    from platform import node

    from posthouse.settings import load_settings

    if actor := load_settings().actor:
        return f"cli:{actor}"
    try:
        return f"cli:{getuser()}@{node()}"
    except (KeyError, OSError):  # a container's user may have no name
        return f"cli:@{node()}"


def metrics_port_option() -> Any:
    return typer.Option(
        None, "--metrics-port", min=0, max=65535, metavar="PORT",
        help="Port of the Prometheus metrics endpoint of this process; 0 picks a free port.",
    )  # fmt: skip


def metrics_host_option() -> Any:
    return typer.Option("127.0.0.1", "--metrics-host", help="Host to bind the metrics endpoint to.")


SHOWN_OF_BAD_JSON = 20


def json_object(text: str, option: str = "--payload") -> dict[str, Any]:
    """Parse an option as a JSON object (- reads stdin); an error names the position."""
    import json
    import sys

    if text == "-":
        text = sys.stdin.read()
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        near = text[error.pos : error.pos + SHOWN_OF_BAD_JSON] or "the end"
        raise UsageError(
            f"{option} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno} "
            f"(near {near!r}); quote it for the shell: {option} '{{\"user_id\": 7}}'"
        ) from None
    if not isinstance(value, dict):
        raise UsageError(f"{option} must be a JSON object like '{{\"user_id\": 7}}', not {text.strip()!r}")
    return value


def read_object_file(file: str | None) -> dict[str, Any]:
    """Read an object from a JSON or TOML file, or from stdin (-); empty without a file."""
    import json
    import sys
    import tomllib

    if file is None:
        return {}
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        value = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{file} is not valid JSON or TOML: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{file} must contain an object, not {type(value).__name__}")
    return value


def number_or_name(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text
