"""The engine in a database of its own, where days pass and partitions go."""

import json

import pytest

from support.engine import Engine

DAY = 86400


class RetentionEngine(Engine):
    """Jobs end on day 0 unless told otherwise; ``on(day)`` is when everything else happens."""

    def on(self, day):
        self._drop_days_ahead()
        self.advance(day * DAY)
        self.value("select posthouse.create_partitions(1)")  # each takes as long as a job does

    def _drop_days_ahead(self):
        """Those that are empty: retention takes 0.1 s for each, and a new database has forty of them."""
        ahead = self.value(
            "select string_agg('posthouse.' || partition, ', ') from posthouse.partitions()"
            " where starts_at > posthouse.now()"
        )
        if ahead:
            self.connection.execute(f"drop table {ahead}")

    def ended(self, tenant="default", **fields):
        """A job that has succeeded."""
        job = self.start(tenant_id=tenant, **fields)
        assert self.succeed(job) == []
        return job.id

    def failed(self, tenant="default", **fields):
        job = self.start(tenant_id=tenant, **fields)
        assert self.fail(job) == []
        return job.id

    def kept_days(self, tenant, days):
        self.value("select posthouse.create_tenant(%s, '{}', 'tester')", tenant)
        fields = json.dumps({"retention_days": days})
        self.value("select posthouse.change_tenant(%s, %s, 'tester')", tenant, fields)

    def there(self, *ids):
        """Of these jobs, those that are still known."""
        return [job_id for job_id in ids if self.status(job_id)]

    def plan(self, **days):
        import json  # noqa: PLC0415 - what only this needs

        rows = self.rows("select * from posthouse.retention_plan(%s)", json.dumps(days))
        return [(row.action, row.relation) for row in rows]


@pytest.fixture
def engine(db, database):
    return RetentionEngine(db, database)
