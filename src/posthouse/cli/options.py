"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import typer

from posthouse.errors import ConfigurationError, InvalidFilter, InvalidJob, InvalidKey, InvalidTenant


class WrongUsage(ConfigurationError):
    """The command was not given what it takes."""


@contextmanager
def checked_usage() -> Iterator[None]:
    """What is wrong with a value that was typed in is wrong usage, whoever finds it."""
    try:
        yield
    except (ConfigurationError, InvalidFilter, InvalidJob, InvalidKey, InvalidTenant) as error:
        raise WrongUsage(str(error)) from None


def json_option() -> Any:
    return typer.Option(False, "--json", help="One JSON document on stdout, nothing else.")


def app_option() -> Any:
    return typer.Option(
        [],
        "--app",
        metavar="MODULE:NAME",
        help="Where your app is; may be given several times. Default: the setting [b]app[/b].",
    )


def commands_option() -> Any:
    return typer.Option(
        None,
        "--commands/--no-commands",
        help="Also run commands that operators have defined. Default: the setting [b]commands[/b].",
        show_default=False,
    )


def log_json_option() -> Any:
    return typer.Option(
        None, "--log-json/--log-text", help="Log lines as JSON. Default: unless on a terminal."
    )


def log_level_option() -> Any:
    return typer.Option("info", metavar="LEVEL", help="debug, info, warning or error.")


def job_id(text: str) -> UUID:
    return id_of("job", text)


def id_of(thing: str, text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise WrongUsage(
            f"{text!r} is not a {thing} id, which looks like 01890a5d-ac96-774b-bcce-b302099a8057; "
            f"`posthouse {thing}s list` shows them"
        ) from None


def caller() -> str:
    """Who is doing this, for the audit: ``cli:anna@studio``, or whom the setting ``actor`` names."""
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
        help="Serve metrics of this process for Prometheus here; 0 takes a free port.",
    )  # fmt: skip


def metrics_host_option() -> Any:
    return typer.Option("127.0.0.1", "--metrics-host", help="Where to listen for whoever collects them.")
