"""Values from options and files, parsed and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from posthouse.cli.guarding import WrongUsage

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
        raise WrongUsage(
            f"{option} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno} "
            f"(near {near!r}); quote it for the shell: {option} '{{\"user_id\": 7}}'"
        ) from None
    if not isinstance(value, dict):
        raise WrongUsage(f"{option} must be a JSON object like '{{\"user_id\": 7}}', not {text.strip()!r}")
    return value


def file_object(file: str | None) -> dict[str, Any]:
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
        raise WrongUsage(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise WrongUsage(f"{file} is not valid JSON or TOML: {error}") from None
    if not isinstance(value, dict):
        raise WrongUsage(f"{file} must contain an object, not {type(value).__name__}")
    return value


def number_or_name(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text
