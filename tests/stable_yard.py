"""The process that forks; see stable.py. ``python stable_yard.py N``: N is a socket that listens."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

LOADED = (
    "asyncio", "httpx", "psycopg_pool", "posthouse.app", "posthouse.cli.listening", "posthouse.demo.stage",
    "posthouse.identity", "posthouse.insights.doctor", "posthouse.keeper.service", "posthouse.server",
    "posthouse.system.housekeeping", "posthouse.testing", "posthouse.triggers", "posthouse.worker.remote",
    "posthouse.worker.worker", "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto",
)  # fmt: skip
NUMBER = struct.Struct("!i")


class Yard:
    """In the process that forks: starts what is asked for, and tells how it ended."""

    def __init__(self, listening):
        self._listening = listening
        self._started = {}
        self._ended, wake = socket.socketpair()
        wake.setblocking(False)
        self._ended.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._wake = wake

    def serve(self):
        """Wait until no process is left."""
        with selectors.DefaultSelector() as selector:
            for file in (sys.stdin, self._listening, self._ended):
                selector.register(file, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if sys.stdin in ready:
                    return
                if self._ended in ready:
                    self._ended.recv(4096)
                    self._tell()
                if self._listening in ready:
                    self._start(self._listening.accept()[0])

    def _start(self, line):
        with suppress(ConnectionError):
            head, files, _, _ = socket.recv_fds(line, NUMBER.size, 3)
            asked = json.loads(line.recv(NUMBER.unpack(head)[0], socket.MSG_WAITALL))
            pid = os.fork()
            if not pid:
                self._leave(line)
                _become(*asked, files)
            for file in files:
                os.close(file)
            self._started[pid] = line
            line.sendall(NUMBER.pack(pid))

    def _leave(self, line):
        """In the fork: nothing of what is ours."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for one in (line, self._listening, self._ended, self._wake, *self._started.values()):
            one.close()

    def _tell(self):
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                with self._started.pop(pid) as line, suppress(ConnectionError):
                    line.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(words, folder, env, session, files):
    """In the fork: what a new interpreter would begin with, then the program."""
    code = 1
    try:
        if session:
            os.setsid()
        _begin(folder, env, files)
        _run(words, folder)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - as the interpreter would show it
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        for file in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                file.flush()
        os._exit(code & 0xFF)


def _begin(folder, env, files):
    for number, file in enumerate(os.dup(file) for file in files):
        os.dup2(file, number)
        os.close(file)
    for file in files:
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    random.seed()
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", 1)  # noqa: SIM115 - until the end
    path = [one for one in env.get("PYTHONPATH", "").split(os.pathsep) if one and one not in sys.path]
    sys.path[0:1] = [folder, *path]


def _run(words, folder):
    first, *rest = words
    if words[:2] == ["-m", "posthouse"]:
        sys.argv = ["posthouse", *words[2:]]
        _load().main()
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        sys.path[0] = str((Path(folder) / first).parent)
        runpy.run_path(first, run_name="__main__")


@cache
def _load():
    """What commands load when they need it; the command line itself."""
    for name in LOADED:
        importlib.import_module(name)
    importlib.import_module("posthouse.server.app").own_routes()
    return importlib.import_module("posthouse.cli.main")


def main():
    _load()
    threads = Path("/proc/self/task")
    alone = len(list(threads.iterdir())) == 1 if threads.exists() else threading.active_count() == 1
    assert alone, "of what is loaded, something has started threads: they would not be in a fork"
    Yard(socket.socket(fileno=int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
