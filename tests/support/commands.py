"""What tests of commands share: programs to run, and a look at the processes of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from posthouse.commands import CommandSpec

PRINT_ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"
PRINT_ENV = "import json, os; print(json.dumps(dict(os.environ)))"
NOTHING: dict = {}


def python(code, *arguments, **fields):
    """A command that runs Python code."""
    return CommandSpec(argv=[sys.executable, "-S", "-c", escaped(code), *arguments], **fields)


def escaped(code):
    return code.replace("{", "{{").replace("}", "}}")


def shell(script, *arguments, **fields):
    return CommandSpec(argv=["/bin/sh", "-c", escaped(script), "sh", *arguments], **fields)


def values(**payload):
    return {
        "tenant_id": "acme",
        "job_id": "0190-1",
        "attempt": 1,
        "correlation_id": "c-1",
        "subject": "photo/7",
        "payload": payload,
    }


def processes_with(token):
    """The pids of all living processes that have the token in their command line, wherever they hang."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def descendants():
    return {process.pid for process in psutil.Process().children(recursive=True)}
