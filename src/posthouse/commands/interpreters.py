"""Reject definitions in which payload values would become code: ``sh -c "echo {payload.name}"``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from posixpath import basename

from posthouse.errors import InvalidCommand

# Program name -> letters of the options whose argument is code.
_CODE_OPTIONS = (
    (re.compile(r"(?:ba|da|z|k|mk|a|fi|c|tc|r?ba)?sh"), "c"),
    (re.compile(r"(?:python|pypy)[0-9.]*w?"), "c"),
    (re.compile(r"(?:perl|ruby|lua|node|nodejs|bun|deno|osascript|Rscript)[0-9.]*"), "eEp"),
    (re.compile(r"php[0-9.]*"), "r"),
    (re.compile(r"su|script|watch"), "c"),
)
_LONG = ("--eval", "--command", "--print", "--run")


def refuse_values_in_code(elements: Iterable[tuple[str, bool]]) -> None:
    """Reject placeholders in code. Each element is its source and whether it has placeholders."""
    letters = ""
    code_next = False
    for source, has_values in elements:
        if has_values and (code_next or (letters and _glued(source))):
            raise InvalidCommand(
                f"{source!r} is code for an interpreter, and a value in it would be executed; "
                'pass it as an argument, for example ["sh", "-c", "echo \\"$1\\"", "sh", "{payload.name}"]'
            )
        code_next = not has_values and bool(letters) and _takes_code(source, letters)
        letters = letters or _letters_of(source)


def _letters_of(source: str) -> str:
    name = basename(source)
    return next((letters for pattern, letters in _CODE_OPTIONS if pattern.fullmatch(name)), "")


def _takes_code(option: str, letters: str) -> bool:
    if option.startswith("--"):
        return option in _LONG
    return option.startswith("-") and any(letter in option for letter in letters)


def _glued(source: str) -> bool:
    return source.startswith(tuple(f"{name}=" for name in _LONG))
