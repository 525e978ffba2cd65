"""Bulk retry and cancel of the jobs that match a filter query."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Response

from posthouse import insights
from posthouse.core.filters import Filter, Wanted, line_of
from posthouse.server.access import Access
from posthouse.server.answers import answer
from posthouse.server.schemas import Bulk, BulkAnswer
from posthouse.storage.control import change_found
from posthouse.storage.queries import Db

SAMPLE = 5


@dataclass(frozen=True, slots=True)
class FoundChange:
    bulk: Bulk
    access: Access
    chosen: Filter

    async def start(self, db: Db) -> Response:
        """Start the bulk change or, for a dry run, return what it would change."""
        search = await insights.search_to_change(db, self.bulk.action, self.chosen, tenant=self.access.whose)
        count = await insights.count_to_change(db, search, self.bulk.limit)
        told = BulkAnswer(
            action=self.bulk.action, dry_run=self.bulk.dry_run, matched=count.count, exact=count.exact,
            counted_up_to=count.counted_up_to,
        )  # fmt: skip
        if self.bulk.dry_run:
            told.sample = await insights.first_of(db, search, SAMPLE)
        else:
            await self._start(db, search, told)
        return answer(told)

    async def _start(self, db: Db, search: Wanted, told: BulkAnswer) -> None:
        bulk, access = self.bulk, self.access
        chosen = {"q": line_of(self.chosen), "tenant": access.whose, "limit": bulk.limit}
        told.bulk_id = await change_found(
            db, bulk.action, chosen, search.as_json(), rate=bulk.rate, stop_share=bulk.stop_share,
            stop_after=bulk.stop_after, in_seconds=bulk.start_in_seconds, actor=access.actor,
        )  # fmt: skip
        told.starts_at = (await insights.get_bulk_change(db, told.bulk_id, tenant=access.whose)).starts_at
