"""Dispatch: how workers learn that jobs are ready.

- ``database`` (default): LISTEN/NOTIFY and adaptive polling, see worker/postgres.py and worker/fetcher.py.
- ``redis``: a relay (relay.py) in one keeper writes hints to Redis Streams, and each worker reads them
  (reader.py). Redis is required.
- ``hybrid``: the same, and workers poll Postgres while Redis is unreachable (connection.py).

Postgres is the source of truth in every mode. A hint only says in which queue to look; the claim decides. So
a hint that is lost, repeated or out of date never loses or repeats a job.
"""

from posthouse.dispatch.connection import Redis, check_redis, open_redis, redis_of, require, state_of
from posthouse.dispatch.reader import Claimant, Reader, observe_readers
from posthouse.dispatch.relay import Relay
from posthouse.dispatch.streams import LEVELS, NOTIFICATIONS_CHANNEL, HintStreams, RelayedNotifications

__all__ = [
    "LEVELS",
    "NOTIFICATIONS_CHANNEL",
    "Claimant",
    "HintStreams",
    "Reader",
    "Redis",
    "Relay",
    "RelayedNotifications",
    "check_redis",
    "observe_readers",
    "open_redis",
    "redis_of",
    "require",
    "state_of",
]
