"""The schema as files.

- tables/NNNN_name.sql: tables, types and their rows. Applied once, in order, forward only. Two lines at the
  top say which code works with the migration, see compatibility.py.
- functions/*.sql: functions and views, replaced as a whole by every migration. base.sql has those that tables
  need for defaults and triggers. The comment above a definition becomes its COMMENT in the database; one that
  starts with "Public." is part of the stable interface, all others are internal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from posthouse.storage.columns import expand_columns

_FILE = re.compile(r"(\d{4})_(\w+)\.sql$")
_LOWEST_CODE = re.compile(r"^-- Works with code from: (\d+\.\d+\.\d+)$", re.MULTILINE)
_REQUIRED = re.compile(r"^-- Required by this code: (yes|no)$", re.MULTILINE)
_STATEMENT = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)"
    r"(?P<text>^create or replace (?P<kind>function|view) (?P<name>posthouse\.\w+).*?;\n)(?=\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Migration:
    """A file of tables/: ``lowest_code`` is the oldest version of Posthouse that works with it."""

    number: int
    name: str
    text: str
    lowest_code: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or a view."""

    kind: str
    name: str
    text: str
    comment: str

    @property
    def comment_statement(self) -> str:
        quoted = self.comment.replace("'", "''")
        return f"comment on {self.kind} {self.name} is '{quoted}';\n"


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations of tables, in order."""
    items = (files("posthouse.storage") / "tables").iterdir()
    found = [_migration(match, item.read_text()) for item in items if (match := _FILE.match(item.name))]
    return tuple(sorted(found, key=lambda migration: migration.number))


def _migration(match: re.Match[str], text: str) -> Migration:
    lowest, required = _LOWEST_CODE.search(text), _REQUIRED.search(text)
    if lowest is None or required is None:
        raise ValueError(f"{match[0]} does not say which code works with it; see compatibility.py")
    return Migration(int(match[1]), match[2], text, lowest[1], required[1] == "yes")


@cache
def base_functions() -> tuple[Definition, ...]:
    """Return the functions that must exist before the tables."""
    return tuple(_definitions("base.sql"))


@cache
def functions() -> tuple[Definition, ...]:
    """Return all other functions and views; views last, because they call functions."""
    names = sorted(item.name for item in (files("posthouse.storage") / "functions").iterdir())
    found = [item for name in names if name != "base.sql" for item in _definitions(name)]
    return tuple(sorted(found, key=lambda item: item.kind))


def _definitions(name: str) -> Iterator[Definition]:
    text = expand_columns((files("posthouse.storage") / "functions" / name).read_text())
    for match in _STATEMENT.finditer(text):
        yield Definition(match["kind"], match["name"], match["text"], _comment(match["comment"]))


def _comment(lines: str) -> str:
    text = " ".join(line.removeprefix("--").strip() for line in lines.splitlines())
    return text.removeprefix("Public. ") if text.startswith("Public. ") else f"Internal. {text}".strip()


@cache
def table_comments() -> str:
    """Return the COMMENT statements of the tables."""
    return (files("posthouse.storage") / "functions" / "table_comments.sql").read_text()


@cache
def functions_digest() -> str:
    """Return a hash of everything that a migration replaces as a whole."""
    texts = [item.text + item.comment for item in (*base_functions(), *functions())]
    return hashlib.sha256("".join([*texts, table_comments()]).encode()).hexdigest()


@cache
def schema_digest() -> str:
    """Return a hash of the whole schema."""
    texts = [migration.text for migration in migrations()]
    return hashlib.sha256("".join([*texts, functions_digest()]).encode()).hexdigest()
