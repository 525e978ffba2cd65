"""Keepers as processes that are killed at random and replaced, until standard input ends.

They are forked from this process, so that a new one costs milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import sys
import time

import psycopg

from posthouse.keeper.service import PollPacer
from posthouse.keeper.triggers import Scheduler
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection


async def keep(url: str) -> None:
    connection = ReconnectingConnection(url, "a keeper")
    scheduler = Scheduler(connection, Settings(database_url=url), PollPacer())
    while True:
        try:
            await scheduler.run_once()
        except psycopg.Error as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        await asyncio.sleep(random.uniform(0, 0.2))


def fork_scheduler(url: str) -> int:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        random.seed(os.getpid())
        asyncio.run(keep(url))
    return child


def main(url: str, count: int) -> None:
    keepers = [fork_scheduler(url) for _ in range(count)]
    killed = 0
    try:
        while not select.select([sys.stdin], [], [], random.uniform(0.02, 0.2))[0]:
            index = random.randrange(count)
            os.kill(keepers[index], signal.SIGKILL)
            os.waitpid(keepers[index], 0)
            killed += 1
            time.sleep(random.uniform(0, 0.05))
            keepers[index] = fork_scheduler(url)
    finally:
        for keeper in keepers:
            os.kill(keeper, signal.SIGKILL)
            os.waitpid(keeper, 0)
    sys.stdout.write(f"{killed}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
