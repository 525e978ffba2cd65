"""Enqueues for a request, in its transaction."""

from __future__ import annotations

import json

from posthouse.client.batch import Batch, Receipt, only
from posthouse.client.kinds import Kinds
from posthouse.core.request import Request
from posthouse.server.access import Access
from posthouse.storage.queries import query
from posthouse.storage.reading import Db

MAX_PAYLOAD_BYTES = 1_048_576


async def enqueue(db: Db, access: Access, request: Request) -> Receipt:
    kinds = Kinds()
    unknown = kinds.unknown([request])
    cursor = await db.execute(query("definition_rules"), (json.dumps(unknown),))
    kinds.learn(unknown, [row[0] for row in await cursor.fetchall()])
    sending = Batch(kinds.admitted([request], MAX_PAYLOAD_BYTES), MAX_PAYLOAD_BYTES).for_engine()
    name = "enqueue_many" if access.principal.tenant is None else "tenant_enqueue"
    cursor = await db.execute(query(name), (sending.parameter(),))
    return only(sending.receipts(await cursor.fetchall()), request)
