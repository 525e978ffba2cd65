"""Jobs in all places, with what filters ask for. Rows are written as they would stand there."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

from posthouse import testing
from posthouse.core.ids import new_id
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from support.server import ServerThread

numbers = itertools.count(1)
ENDED = """
insert into posthouse.history (
  id, queued_at, scheduled_for, started_at, attempt_started_at, priority, attempt_count, max_attempts,
  generation, crashes, snoozes, tenant_id, kind, queue, source, payload, subject, correlation_id, worker_id,
  last_error, finished_at, status, outcome, error)
values (
  %(id)s, posthouse.now() - %(age)s, posthouse.now(), posthouse.now(), posthouse.now(), %(priority)s,
  %(attempts)s, 10, 1, 0, 0, %(tenant)s, %(kind)s, %(queue)s, %(source)s, %(payload)s, %(subject)s,
  %(correlation)s, %(worker)s, %(error)s, posthouse.now() - %(ended)s, %(status)s, 'x', %(detail)s)
"""


class FilterServer(ServerThread):
    """A server whose database tests fill with jobs in all states."""

    path = "/api/v1"

    def __enter__(self):
        super().__enter__()
        self.db = self.connect()
        return self

    def __exit__(self, *error):
        self.db.close()
        super().__exit__(*error)

    def tenant(self):
        """A new one, with a client of its admin."""
        name = f"tenant-{next(numbers)}"
        return SimpleNamespace(name=name, client=self.client_for("tenant-admin", name))

    def worker(self, name):
        worker = new_id()
        self.db.execute(
            "select posthouse.register(%s, %s, 'studio.local', 1, '', '{}', '{}', 1, '{}', '{}', '{}')",
            (worker, name),
        )
        return worker

    def queued(self, tenant, kind="work", **options):
        names = "".join(f", {name} => %({name})s" for name in options)
        values = {name: json.dumps(value) if name == "payload" else value for name, value in options.items()}
        statement = f"select posthouse.enqueue(%(kind)s, tenant_id => %(tenant)s{names})"
        return self.db.execute(statement, {"kind": kind, "tenant": tenant, **values}).fetchone()[0]

    def ended(self, tenant, status="failed", *, kind="work", age=60, ended=30, payload=None, error=None,
              print_="f" * 16, **others):  # fmt: skip
        """A job that ended so many seconds ago, and was enqueued ``age`` seconds ago."""
        detail = None if status == "succeeded" else {"type": "Error", "fingerprint": print_}
        usual = {"queue": "default", "priority": 100, "attempts": 1, "source": "manual", "subject": None,
                 "correlation": None, "worker": None}  # fmt: skip
        job_id = UUID(int=new_id().int - (int(age * 1000) << 80))
        self.db.execute(
            ENDED,
            {
                **usual, **others, "id": job_id, "tenant": tenant, "status": status, "kind": kind,
                "age": timedelta(seconds=age), "ended": timedelta(seconds=ended),
                "payload": json.dumps(payload or {}), "error": error, "detail": json.dumps(detail),
            },
        )  # fmt: skip
        return job_id

    def keep(self, rounds=1):
        async def run():
            keeper = Keeper(self.database, self.settings)
            for _ in range(rounds):
                await keeper.bulk_changes.run_once()
            await keeper.stop()

        asyncio.run(run())


@contextmanager
def filter_server(server):
    with testing.database(server) as url, FilterServer(Settings(database_url=url)) as running:
        yield running


def found(client, line, **query):
    answer = client.get("/jobs", params={"q": line, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()
