"""The forking process of forkserver.py: ``python forkserver_main.py N``, N being a listening socket."""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

PRELOADED_MODULES = (
    "asyncio", "httpx", "psycopg_pool", "posthouse.app", "posthouse.cli.child", "posthouse.cli.run_server",
    "posthouse.demo.crash.run", "posthouse.demo.crash.worker", "posthouse.demo.stage", "posthouse.identity",
     "posthouse.insights.doctor", "posthouse.keeper.service", "posthouse.server",
    "posthouse.maintenance", "posthouse.testing", "posthouse.triggers", "posthouse.worker.remote",
    "posthouse.worker.worker", "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto",
)  # fmt: skip
NUMBER = struct.Struct("!i")
CHILD_NAME = "posthouse-child"
"""Name in ps of a child process that a command has started."""
COMMANDS_FOLDER = ".forkserver-commands"
"""Folder of the commands that fork. Forks have it not on their PATH: they look for the program of users."""
CHILD_MODULES = ("posthouse.supervisor.child", "posthouse.worker.runners.process.process")
"""Modules that hold the code of a child process."""
SUPERVISING_COMMANDS = {"worker", "up"}
"""Commands that start child processes."""


class ForkServerLoop:
    """Forks the requested processes and reports their exit codes."""

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
        """Serve until standard input is closed and no process is left."""
        with selectors.DefaultSelector() as selector:
            for file in (sys.stdin, self._listening, self._ended):
                selector.register(file, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if sys.stdin in ready:
                    return
                if self._ended in ready:
                    self._ended.recv(4096)
                    self._report_exits()
                if self._listening in ready:
                    self._start(self._listening.accept()[0])

    def _start(self, line):
        with suppress(ConnectionError):
            head, files, _, _ = socket.recv_fds(line, NUMBER.size, 3)
            asked = json.loads(line.recv(NUMBER.unpack(head)[0], socket.MSG_WAITALL))
            in_session, entered = os.pipe()
            pid = os.fork()
            if not pid:
                if asked[-1]:
                    os.setsid()
                os.close(entered)
                os.close(in_session)
                self._close_parent_fds(line)
                _run_child(*asked, files)
            os.close(entered)
            os.read(
                in_session, 1
            )  # returns when the fork has its session: from then on its group can be killed
            os.close(in_session)
            for file in files:
                os.close(file)
            self._started[pid] = line
            line.sendall(NUMBER.pack(pid))

    def _close_parent_fds(self, line):
        """In the fork: close the files and reset the signal handlers of the parent."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for one in (line, self._listening, self._ended, self._wake, *self._started.values()):
            one.close()

    def _report_exits(self):
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                with self._started.pop(pid) as line, suppress(ConnectionError):
                    line.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _run_child(words, folder, env, session, files):
    """In the fork: set up what a new interpreter would have, then run the program."""

    def program():
        _set_up_child(folder, env, files)
        if session and os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C comes from there
        _run_program(words, folder)

    _run_and_exit(program)


def _run_and_exit(program):
    """Run the program and exit as the interpreter would."""
    code = 1
    try:
        program()
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


def _set_up_child(folder, env, files):
    for number, file in enumerate(os.dup(file) for file in files):
        os.dup2(file, number)
        os.close(file)
    for file in files:
        os.close(file)
    os.chdir(folder)
    _replace_environment(env)
    path = [one for one in env.get("PYTHONPATH", "").split(os.pathsep) if one and one not in sys.path]
    sys.path[0:1] = [folder, *path]


def _replace_environment(env):
    os.environ.clear()
    os.environ.update(env)
    if "PATH" in env:
        folders = env["PATH"].split(os.pathsep)
        os.environ["PATH"] = os.pathsep.join(one for one in folders if not one.endswith(COMMANDS_FOLDER))
    time.tzset()
    random.seed()
    # Not closed when they are replaced, in a fork of a fork.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", 1, closefd=False)  # noqa: SIM115


def _run_program(words, folder):
    first, *rest = words
    if words[:2] == ["-m", "posthouse"]:
        if SUPERVISING_COMMANDS.intersection(words[2:3]):
            Guardian.prefork()
        sys.argv = ["posthouse", *words[2:]]
        _preload().main()
    elif first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        sys.path[0] = str((Path(folder) / first).parent)
        runpy.run_path(first, run_name="__main__")


class Guardian(subprocess.Popen):
    """The guardian of a command's child processes, forked before the command starts threads.

    It forks Posthouse's own child processes and executes all other programs, as the guardian of users does.
    """

    def __init__(self, pid):
        """Set the attributes that the methods of Popen need."""
        self.args, self.pid, self.returncode = ["guardian"], pid, None
        self.stdin = self.stdout = self.stderr = None
        self._child_created, self._waitpid_lock = True, threading.Lock()

    @classmethod
    def prefork(cls):
        """Fork a guardian, for the first request."""
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            ours.close()
            _run_and_exit(lambda: _run_guardian(theirs, parent))
        theirs.close()
        guardian = importlib.import_module("posthouse.commands.guardian_client")
        guardian.subprocess = _Processes(lambda words, **options: cls._start(ours, pid, words, options))

    @classmethod
    def _start(cls, line, pid, words, options):
        if line.fileno() == -1:  # it was used: start the next as users do
            return subprocess.Popen(words, **options)
        with line:
            socket.send_fds(line, [b"g"], options["pass_fds"])
        return cls(pid)


class _Processes:
    """Replaces ``subprocess`` in a module of Posthouse."""

    def __init__(self, start):
        self.Popen = start

    def __getattr__(self, name):
        return getattr(subprocess, name)


def _run_guardian(line, parent):
    """In the guardian: wait until it is requested, or its command has ended."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    os.close(null)
    files = socket.recv_fds(line, 1, 1)[1]
    line.close()
    if files:
        launch = importlib.import_module("posthouse.commands.guardian.launch")
        launch._execute = _fork_own_programs(launch._execute)
        importlib.import_module("posthouse.commands.guardian.main").main(files[0], parent)


def _fork_own_programs(execute):
    """Fork Posthouse's own programs, which are loaded already, and execute all others."""
    own = [importlib.import_module(name).CHILD_CODE for name in CHILD_MODULES]

    def become(program, argv, env):
        if program != sys.executable or argv[2] not in own:
            execute(program, argv, env)
        _run_and_exit(lambda: _run_forked_program(argv, env))

    return become


def _run_forked_program(argv, env):
    """Do what execve(2) would, then run the program."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    for file in [int(one.name) for one in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):
            if not os.get_inheritable(file):
                os.close(file)
    gc.enable()
    importlib.import_module("posthouse.commands.guardian.launch").name_process(CHILD_NAME)
    _replace_environment(env)
    Guardian.prefork()
    sys.argv = ["-c", *argv[3:]]
    exec(compile(argv[2], "<string>", "exec"), {"__name__": "__main__"})


@cache
def _preload():
    """Load what commands load lazily, and build the command line with its options."""
    for name in PRELOADED_MODULES:
        importlib.import_module(name)
    importlib.import_module("posthouse.server.app").own_routes()
    main = importlib.import_module("posthouse.cli.main")
    main.cli = importlib.import_module("typer.main").get_command(main.cli)  # 85 ms of each command
    return main


def _fork_demo_workers(address):
    """Let the fork server start the workers of demos."""
    sys.path[0] = str(Path(__file__).parents[1])  # forks replace it
    forkserver = importlib.import_module("support.forkserver")
    forkserver.inherited_socket_path = address

    def start(words, *, cwd=None, process_group=None, **options):
        return forkserver.start_python(words[1:], folder=cwd, session=process_group is not None, **options)

    for name in ("posthouse.demo.stage", "posthouse.demo.crash.run"):
        importlib.import_module(name).subprocess = _Processes(start)


def main():
    _preload()
    listening = socket.socket(fileno=int(sys.argv[1]))
    _fork_demo_workers(listening.getsockname())
    threads = Path("/proc/self/task")
    alone = len(list(threads.iterdir())) == 1 if threads.exists() else threading.active_count() == 1
    gc.collect()
    gc.freeze()  # what is loaded stays, and forks share its memory
    assert alone, "of what is loaded, something has started threads: they would not be in a fork"
    ForkServerLoop(listening).serve()


if __name__ == "__main__":
    main()
