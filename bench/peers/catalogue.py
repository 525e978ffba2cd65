"""The peers, and what the runner has to know about each."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .environments import HERE, VENV_PYTHON

# Enough for a drain of about two seconds: the fastest queues take 20,000 jobs in a third of a second.
DEFAULT_JOBS = 100_000


@dataclass(frozen=True, kw_only=True)
class Peer:
    name: str
    script: str
    # Jobs that are not durably finished yet: a drain ends when this is 0.
    unfinished_sql: str
    # A slow peer drains fewer jobs, or the run would take many minutes.
    most_jobs: int = DEFAULT_JOBS
    # A drain with guarantees takes longer.
    most_jobs_with_guarantees: int = 10_000
    # What its second drain has beyond the first: see "Guarantees" in README.md.
    guarantees: str = ""
    python: Path = VENV_PYTHON

    @property
    def on_node(self) -> bool:
        return self.script.endswith(".mjs")

    def command(self) -> list[str]:
        if self.on_node:
            return [shutil.which("node") or "node", str(HERE / self.script)]
        # As a module, because a script's own folder comes first on the import path and the
        # files there have the names of the libraries.
        return [str(self.python), "-m", f"bench.peers.{Path(self.script).stem}"]


# Awa keeps no cheap count of open jobs (its own view takes a second), but every lane has a
# sequence for what came in, and each batch of completions says how many it holds.
AWA_UNFINISHED_SQL = """
SELECT (SELECT coalesce(sum(awa.sequence_next_value(seq_name) - 1), 0)
          FROM awa.queue_enqueue_heads)
     - (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
     - (SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups)
     - (SELECT count(*) FROM awa.done_entries)
"""

PEERS = (
    Peer(
        name="pgqueuer",
        script="pgqueuer.py",
        unfinished_sql="SELECT count(*) FROM pgqueuer",
        most_jobs=40_000,
        guarantees="limit per kind, history",
    ),
    Peer(
        name="procrastinate",
        script="procrastinate.py",
        unfinished_sql=("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"),
        most_jobs=2_000,
        most_jobs_with_guarantees=1_000,
        guarantees="ordered keys, history",
    ),
    Peer(
        name="awa",
        script="awa.py",
        unfinished_sql=AWA_UNFINISHED_SQL,
        most_jobs=20_000,
        guarantees="rate limit per worker process, history",
    ),
    Peer(
        name="graphile-worker",
        script="graphile_worker.mjs",
        unfinished_sql="SELECT count(*) FROM graphile_worker._private_jobs",
        most_jobs_with_guarantees=2_000,
        guarantees="ordered keys",
    ),
    Peer(
        name="pg-boss",
        script="pg_boss.mjs",
        unfinished_sql=("SELECT count(*) FROM pgboss.job WHERE name = 'noop' AND state < 'completed'"),
        most_jobs=40_000,
        most_jobs_with_guarantees=2_000,
        guarantees="ordered keys, limit per tenant, history",
    ),
)

POSTHOUSE = Peer(
    name="posthouse",
    script="posthouse.py",
    unfinished_sql=(
        "SELECT (SELECT count(*) FROM posthouse.ready) + (SELECT count(*) FROM posthouse.waiting) "
        "+ (SELECT count(*) FROM posthouse.running)"
    ),
    python=Path(sys.executable),
)
