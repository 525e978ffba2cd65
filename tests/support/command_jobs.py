"""What tests of command jobs share: programs to run, a look at their processes, the command line."""

from __future__ import annotations

import subprocess
import sys

from psycopg.rows import dict_row

from support import forkserver

# A child in a session of its own, deaf to SIGTERM.
ESCAPE = """
import os, signal, sys, time
if not os.fork():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True: time.sleep(1000)
print("ready", flush=True)
time.sleep(1000)
"""
PRINT_ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"


def python(code, *arguments):
    """The argv of a command that runs Python code."""
    return [sys.executable, "-S", "-c", escaped(code), *arguments]


def shell(script, *arguments):
    return ["/bin/sh", "-c", escaped(script), "sh", *arguments]


def escaped(code):
    return code.replace("{", "{{").replace("}", "}}")


def attempts(db, job_id):
    """All that is recorded of each attempt, oldest first."""
    with db.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            "select * from posthouse.attempts where job_id = %s order by started_at, finished_at", (job_id,)
        ).fetchall()


def of_attempts(db, job_id, *names):
    """Some columns of each attempt, oldest first."""
    return [tuple(attempt[name] for name in names) for attempt in attempts(db, job_id)]


def log_texts(db, job_id):
    rows = db.execute(
        "select stream, text from posthouse.log_lines where job_id = %s order by sequence", (job_id,)
    )
    return rows.fetchall()


class Program:
    def __init__(self, folder, env):
        self.folder = folder
        self._env = env
        self._started = []

    def __call__(self, *arguments, stdin="", **env):
        return forkserver.run_posthouse(arguments, folder=self.folder, env={**self._env, **env}, stdin=stdin)

    def start(self, *arguments, **env):
        with (self.folder / f"err{len(self._started)}").open("w") as errors:
            process = forkserver.start_python(
                ["-m", "posthouse", *arguments], folder=self.folder, env={**self._env, **env},
                stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        self._started.append(process)
        return process

    def end(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
