"""Run statements and functions of the engine, and map their rows to types.

The statements are in sql/, one file for each family. A statement begins with ``-- name: jobs_by_ids`` and a
comment that states its purpose, and ends before the next one. Text that several statements of a file share
is a fragment above the first of them: ``-- fragment: filters`` replaces ``@filters@``. A call of a single
function needs no statement: ``call(connection, "pause_queue", name="mail")`` casts each value to the type of
its parameter.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row

from posthouse.storage.schema import base_functions, expand_columns, functions

Db: TypeAlias = AsyncConnection[Any]
T = TypeVar("T")

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_FRAGMENT = re.compile(
    r"^-- fragment: (\w+)\n(?:--[^\n]*\n)*(.*?)(?=^-- fragment:|\Z)", re.MULTILINE | re.DOTALL
)
_LINE_COMMENT = re.compile(r"--[^\n]*")
_PARAMETER = re.compile(r"(?:'[^']*'|\([^()]*\)|[^,'()])+")
_SIGNATURE = re.compile(
    r"create or replace function posthouse\.(?P<name>\w+)\s*"
    r"\((?P<parameters>(?:'[^']*'|\([^()]*\)|[^'()])*)\)\s*"
    r"(?:returns\s+(?P<result>table\s*\([^()]*\)|.+?))?\s+(?:language|as)\b",
    re.DOTALL,
)
_CASTS = {"interval": "make_interval(secs => {}::double precision)", "jsonb[]": "{}::text[]::jsonb[]"}
"""Intervals are passed in seconds, and arrays of JSON as texts."""
_OF_COLUMNS, _OF_VALUE = "select {} from {}", "select {}"
_OF_TABLE_ROW = "select to_jsonb(r) from {} as r where not r is null"


@cache
def statements() -> dict[str, str]:
    """Return all statements by name."""
    found: dict[str, str] = {}
    for file in sorted((files("posthouse.storage") / "sql").iterdir(), key=lambda file: file.name):
        head, *parts = _NAME.split(file.read_text())
        fragments = {f"@{name}@": text.strip() for name, text in _FRAGMENT.findall(head)}
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"{file.name}: two statements are named {name}")
            found[name] = expand_columns(_insert(fragments, text.strip()))
    return found


def _insert(fragments: dict[str, str], text: str) -> str:
    for mark, fragment in fragments.items():
        text = text.replace(mark, fragment)
    return text


@cache
def query(name: str) -> str:
    """Return a statement by its name."""
    try:
        return statements()[name]
    except KeyError:
        raise LookupError(f"no statement is named {name!r}") from None


async def fetch(connection: Db, name: str, row_type: type[T], /, **parameters: Any) -> list[T]:
    """Return the rows of a statement; its columns are the fields of ``row_type``."""
    async with connection.cursor(row_factory=class_row(row_type)) as cursor:
        await cursor.execute(query(name), parameters)
        return await cursor.fetchall()


async def fetch_with_generic_plan(
    connection: Db, name: str, row_type: type[T], /, **parameters: Any
) -> list[T]:
    """Return the rows of a statement whose generic plan is kept. Must run in a transaction."""
    await connection.execute(query("generic_plans"))
    async with connection.cursor(row_factory=class_row(row_type)) as cursor:
        await cursor.execute(query(name), parameters, prepare=True)
        return await cursor.fetchall()


async def fetch_rows(connection: Db, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query(name), parameters)
        return await cursor.fetchall()


async def fetch_row(connection: Db, name: str, /, **parameters: Any) -> dict[str, Any]:
    """Return the only row of a statement that always returns one."""
    (row,) = await fetch_rows(connection, name, **parameters)
    return row


async def fetch_value(connection: Db, name: str, /, **parameters: Any) -> Any:
    """Return the single value of a statement, or None without a row."""
    cursor = await connection.execute(query(name), parameters)
    row = await cursor.fetchone()
    return None if row is None else row[0]


class Signature(NamedTuple):
    """A function of the engine: the types of its parameters, its result, and the columns of the result."""

    parameters: dict[str, str]
    result: str
    columns: list[str]


@cache
def signatures() -> dict[str, Signature]:
    """Return the functions of this version by name."""
    texts = [item.text for item in (*base_functions(), *functions()) if item.kind == "function"]
    found = (_SIGNATURE.match(_LINE_COMMENT.sub("", text)) for text in texts)
    return {match["name"]: _signature(match["parameters"], match["result"] or "") for match in found if match}


def _signature(parameters: str, result: str) -> Signature:
    given, columns = {}, []
    for parameter in _PARAMETER.findall(parameters):
        name, type_ = _declared(parameter)
        if name == "out":
            columns.append(type_.split()[0])
        else:
            given[name] = type_
    if result.startswith("table"):
        columns = [_declared(column)[0] for column in _PARAMETER.findall(result.partition("(")[2][:-1])]
    return Signature(given, " ".join(result.split()), columns)


def _declared(text: str) -> tuple[str, str]:
    name, _, type_ = " ".join(text.split()).partition(" ")
    return name, type_.partition(" default ")[0]


@cache
def calling(function: str, *names: str) -> str:
    """Return a statement that calls a function of the engine with these parameters."""
    parameters, result, columns = signatures()[function]
    arguments: list[str] = []
    for parameter, type_ in parameters.items():
        name = parameter.removeprefix("p_")
        if name in names:
            value = _CASTS.get(type_, "{}::" + type_).format(f"%({name})s")
            is_next = len(arguments) == list(parameters).index(parameter)
            arguments.append(value if is_next else f"{parameter} => {value}")
    if len(arguments) != len(names):
        raise LookupError(f"posthouse.{function} has the parameters {', '.join(parameters)}, not {names}")
    text = f"posthouse.{function}({', '.join(arguments)})"
    if columns:
        return _OF_COLUMNS.format(", ".join(columns), text)
    return (_OF_TABLE_ROW if result.startswith("posthouse.") else _OF_VALUE).format(text)


async def call(connection: Db, function: str, /, **parameters: Any) -> Any:
    """Call a function of the engine and return its value, or None if it returns no row."""
    cursor = await connection.execute(calling(function, *parameters), parameters)
    row = await cursor.fetchone()
    return None if row is None else row[0]


async def call_row(connection: Db, function: str, /, **parameters: Any) -> dict[str, Any]:
    """Call a function that always returns one row."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(calling(function, *parameters), parameters)
        (row,) = await cursor.fetchall()
        return row


async def call_rows(connection: Db, function: str, row_type: type[T], /, **parameters: Any) -> list[T]:
    """Call a function and return its rows; its columns are the fields of ``row_type``."""
    async with connection.cursor(row_factory=class_row(row_type)) as cursor:
        await cursor.execute(calling(function, *parameters), parameters)
        return await cursor.fetchall()


async def database_now(connection: Db) -> datetime:
    return await call(connection, "now")  # type: ignore[no-any-return]
