"""Run a command, and turn expected errors into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from posthouse.errors import ConfigurationError, PosthouseError

USAGE = 2


class UsageError(ConfigurationError):
    """The command line arguments are invalid."""


def run_guarded(command: Callable[[], int | None]) -> int:
    """Run the command; print an expected error in one line and return the exit code."""
    try:
        return command() or 0
    except PosthouseError as error:
        from posthouse.core.redaction import mask_text

        sys.stderr.write(f"error: {mask_text(str(error))}\n")
        return USAGE if isinstance(error, UsageError) else 1
    except Exception as error:
        if type(error).__name__ == "Abort":  # an exception of typer, which child processes do not import
            return 1
        if not hasattr(error, "format_message"):  # all errors of typer have it, in every version
            raise
        return _explain_usage(error)


def _explain_usage(error: Any) -> int:
    """Print a usage error in one line that names the help command."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return USAGE
    command = context.command_path if context is not None else "posthouse"
    message = " ".join(error.format_message().split()).rstrip(".")
    link = " See" if message.endswith("?") else "; see"
    sys.stderr.write(f"error: {message}{link} `{command} --help`\n")
    return int(error.exit_code)


def leave_embedded() -> None:
    """Detach from the embedded Postgres, if a command used it; the last process stops it."""
    server = sys.modules.get("posthouse.storage.database")
    if server is not None:
        server.close_embedded()
