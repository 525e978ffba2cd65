"""Which code works with which schema.

Each file of tables/ says two things at its top:

- ``-- Works with code from: 0.1.0``: the oldest version of Posthouse that works once the migration is
  applied. The version is stored with the migration, so that older code finds it.
- ``-- Required by this code: yes``: whether the code that comes with the migration needs it. Code works with
  a schema that lacks migrations which are not required.

Functions need neither as long as parameters are only added, at the end and with defaults, and functions that
supported versions call are kept. A change that breaks this comes with a migration that says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version

from posthouse.storage.schema import migrations


def code_version() -> str:
    """Return the version of this code."""
    return version("posthouse")


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparisons."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def required_schema() -> int:
    """Return the number of the newest migration that this code cannot work without."""
    return max(migration.number for migration in migrations() if migration.is_required)


def why_incompatible(number: int, lowest_codes: Sequence[str]) -> str | None:
    """Return why this code cannot work with a schema, and what to do; None if it can.

    ``number`` is that of the newest migration, ``lowest_codes`` the versions that the migrations need.
    """
    own = code_version()
    if number < required_schema():
        return (
            f"the database schema has version {number}, but Posthouse {own} needs version "
            f"{required_schema()}: run `posthouse migrate`"
        )
    lowest = max(lowest_codes, key=version_key, default=own)
    if version_key(lowest) > version_key(own):
        return (
            f"the database schema has version {number}, which needs Posthouse {lowest} or newer; "
            f"this is {own}: upgrade Posthouse"
        )
    return None
