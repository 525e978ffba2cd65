"""Reads the rules of kinds, for whoever is neither client nor worker."""

from __future__ import annotations

import json
from collections.abc import Sequence

from posthouse.core.kind import KindRules
from posthouse.storage.queries import query
from posthouse.storage.reading import Db


async def rules_of(connection: Db, keys: Sequence[str]) -> list[KindRules]:
    cursor = await connection.execute(query("definition_rules"), (json.dumps(list(keys)),))
    return [KindRules.from_text(row[0]) for row in await cursor.fetchall()]
