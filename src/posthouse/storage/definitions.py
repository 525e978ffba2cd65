"""Load the rules of kinds, for callers other than clients and workers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches

from posthouse.core.definition import StoredDefinition, is_own
from posthouse.errors import UnknownDefinition
from posthouse.storage.queries import Db, fetch_rows, query


async def load_rules(connection: Db, keys: Sequence[str]) -> list[StoredDefinition]:
    cursor = await connection.execute(query("definitions_by_kind"), (json.dumps(list(keys)),))
    return [StoredDefinition.from_text(row[0]) for row in await cursor.fetchall()]


async def require_defined(connection: Db, keys: Sequence[str]) -> None:
    """Raise UnknownDefinition, with the nearest key, unless there is a definition of each of these kinds."""
    found = {rules.key for rules in await load_rules(connection, keys)}
    missing = next((key for key in keys if key not in found), None)
    if missing is None:
        return
    known = [
        row["key"]
        for row in await fetch_rows(connection, "definitions_active_kinds")
        if not is_own(row["key"])
    ]
    near = get_close_matches(missing, known, n=1)
    advice = f'did you mean "{near[0]}"?' if near else "GET /api/v1/definitions lists the definitions"
    raise UnknownDefinition(f'there is no definition "{missing}"; {advice}')
