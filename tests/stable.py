"""Fresh horses: a process that has everything loaded, and forks one for each command.

A command of its own takes 0.5 s to load what it needs; the suite runs more than a thousand. Forked, each is
still a process with its own arguments, environment, folder, files and exit code. What looks after signals,
threads or loops (workers, servers) is started afresh, and so is what sets variables of Python's.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from functools import cache

STARTED_AFRESH = {"up", "worker", "keeper", "server", "bench", "demo"}
LOADED = (
    "asyncio", "psycopg_pool", "posthouse.app", "posthouse.identity", "posthouse.insights.doctor",
    "posthouse.system.housekeeping", "posthouse.testing", "posthouse.triggers",
)  # fmt: skip
SECONDS = 60
_HEAD = struct.Struct("!I")


def posthouse(arguments, *, folder, env, stdin="", seconds=SECONDS):
    """Runs ``posthouse`` with these arguments, and returns what subprocess.run would."""
    words = [str(word) for word in arguments]
    if set(words[:1]) & STARTED_AFRESH or _of_python(env) != _of_python(os.environ):
        return subprocess.run(
            [sys.executable, "-m", "posthouse", *words], cwd=folder, env=env, input=stdin,
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    done = _stable().run(words, str(folder), dict(env), stdin, seconds)
    return subprocess.CompletedProcess(["posthouse", *words], *done)


def _of_python(env):
    return {name: value for name, value in env.items() if name.startswith("PYTHON")}


@cache
def _stable():
    return _Stable()


class _Stable:
    def __init__(self):
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair()
        command = [sys.executable, __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        atexit.register(self._close)

    def run(self, words, folder, env, stdin, seconds):
        with (
            self._lock,
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode())
            given.seek(0)
            asked = json.dumps([words, folder, env]).encode()
            files = [file.fileno() for file in (given, out, err)]
            socket.send_fds(self._line, [_HEAD.pack(len(asked))], files)
            self._line.sendall(asked)
            pid = _HEAD.unpack(self._line.recv(_HEAD.size, socket.MSG_WAITALL))[0]
            code = self._wait(pid, words, seconds)
            return code, *(_text(file) for file in (out, err))

    def _wait(self, pid, words, seconds):
        self._line.settimeout(seconds)
        try:
            return _HEAD.unpack(self._line.recv(_HEAD.size, socket.MSG_WAITALL))[0]
        except TimeoutError:
            os.kill(pid, 9)
            self._line.settimeout(None)
            self._line.recv(_HEAD.size, socket.MSG_WAITALL)
            raise subprocess.TimeoutExpired(words, seconds) from None
        finally:
            self._line.settimeout(None)

    def _close(self):
        self._line.close()
        self._process.wait()


def _text(file):
    file.seek(0)
    return file.read().decode()


def _serve(line):
    """In the process that forks: one command after the other, until nobody is there any more."""
    while True:
        head, files, _, _ = socket.recv_fds(line, _HEAD.size, 3)
        if not head:
            return
        words, folder, env = json.loads(line.recv(_HEAD.unpack(head)[0], socket.MSG_WAITALL))
        pid = os.fork()
        if not pid:
            line.close()
            _become(words, folder, env, files)
        for file in files:
            os.close(file)
        line.sendall(_HEAD.pack(pid))
        status = os.waitpid(pid, 0)[1]
        line.sendall(_HEAD.pack(os.waitstatus_to_exitcode(status) & 0xFF))


def _become(words, folder, env, files):
    """In the fork: what a new interpreter would begin with, then the command."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    random.seed()
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - until the end
    sys.argv = ["posthouse", *words]
    sys.path[0] = folder
    code = 1
    try:
        _load().main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter would show it
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@cache
def _load():
    """What commands load when they need it; the command line itself."""
    for name in LOADED:
        importlib.import_module(name)
    return importlib.import_module("posthouse.cli")


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
