"""Retries and cancels of all jobs that a line of the filter language finds."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Response

from posthouse import insights
from posthouse.core.filters import UNSUCCESSFUL, Filter, Wanted, line_of
from posthouse.core.states import Status
from posthouse.errors import InvalidRequest
from posthouse.server.access import Access
from posthouse.server.answers import answer
from posthouse.server.schemas import Bulk, BulkAnswer
from posthouse.storage.control import change_found
from posthouse.storage.reading import Db

SAMPLE = 5
_ACTIVE = frozenset({Status.QUEUED, Status.RUNNING})


@dataclass(frozen=True, slots=True)
class FoundChange:
    bulk: Bulk
    access: Access
    chosen: Filter

    async def start(self, db: Db) -> Response:
        """Starts it, or says what it would be about."""
        if not self.chosen.terms:
            raise InvalidRequest("say which jobs: a filter with at least one term")
        search = await self._search(db)
        count = await insights.count_of(
            db, search, most=min(self.bulk.limit or insights.COUNTED, insights.COUNTED)
        )
        told = BulkAnswer(
            action=self.bulk.action, dry_run=self.bulk.dry_run, matched=count.count, exact=count.exact,
            counted_up_to=count.counted_up_to,
        )  # fmt: skip
        if self.bulk.dry_run:
            told.sample = await insights.first_of(db, search, SAMPLE)
        else:
            await self._start(db, search, told)
        return answer(told)

    async def _search(self, db: Db) -> Wanted:
        search = await insights.search_for(db, self.chosen, tenant=self.access.whose, among=self._among())
        if not search.statuses:
            raise InvalidRequest(_REFUSED[self.bulk.action])
        return search

    def _among(self) -> frozenset[Status]:
        """Whoever was canceled meant it: only who says so runs such jobs again."""
        if self.bulk.action == "cancel":
            return _ACTIVE
        if self.chosen.asks_for("status", Status.CANCELED):
            return UNSUCCESSFUL
        return UNSUCCESSFUL - {Status.CANCELED}

    async def _start(self, db: Db, search: Wanted, told: BulkAnswer) -> None:
        bulk, access = self.bulk, self.access
        chosen = {"q": line_of(self.chosen), "tenant": access.whose, "limit": bulk.limit}
        told.bulk_id = await change_found(
            db, bulk.action, chosen, search.as_json(), rate=bulk.rate, stop_share=bulk.stop_share,
            stop_after=bulk.stop_after, in_seconds=bulk.start_in_seconds, actor=access.actor,
        )  # fmt: skip
        told.starts_at = (await insights.get_bulk_change(db, told.bulk_id, tenant=access.whose)).starts_at


_REFUSED = {
    "retry": "only failed, dead-letter and canceled jobs are retried: this filter asks for others",
    "cancel": "only queued and running jobs are canceled: this filter asks for others",
}
