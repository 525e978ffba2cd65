"""Start commands, workers and scripts as forks of a process that has loaded all modules.

A new interpreter takes 0.5 s to load a command, 0.9 s a worker and 1.8 s a server; the suite starts two
thousand processes. A fork still has its own arguments, environment, folder, files, signals and exit code. The
forking process has one thread and no event loop, so that forks copy neither.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

from support.forkserver_main import CHILD_NAME, COMMANDS_FOLDER, NUMBER
from support.waiting import WAIT_SECONDS

__all__ = ["CHILD_NAME", "install_commands", "run_posthouse", "run_python", "socket_path", "start_python"]

ADDRESS = "TEST_FORKSERVER_SOCKET"
"""Environment variable with the path of the fork server's socket, for processes that start others."""
NEW_INTERPRETER = "TEST_NEW_INTERPRETER"
"""Environment variable that starts a process with a new interpreter, as users do."""
COMMAND = Path(__file__).with_name("forkserver_command.py")
FORKSERVER = Path(__file__).with_name("forkserver_main.py")
inherited_socket_path = ""
"""Socket of the fork server, in processes that it forked."""
FORKABLE_VARIABLES = {"PYTHONPATH"}
"""Variables of Python that also work in a fork."""


def run_posthouse(arguments, *, folder, env, stdin="", seconds=WAIT_SECONDS):
    """Run ``posthouse`` with these arguments; return what subprocess.run would."""
    return run_python(["-m", "posthouse", *arguments], folder=folder, env=env, stdin=stdin, seconds=seconds)


def run_python(words, *, folder, env, stdin="", seconds=WAIT_SECONDS):
    """Run ``python`` with these arguments; return what subprocess.run would."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        process = start_python(words, folder=folder, env=env, stdin=given, stdout=out, stderr=err)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(process.args, code, *(_text(file) for file in (out, err)))


def start_python(
    words, *, folder=None, env=None, stdin=subprocess.DEVNULL, stdout=None, stderr=None, session=False
):
    """Start ``python`` with these arguments, as subprocess.Popen would: a script, or -m or -c and more.

    Variables of Python that only a new interpreter would follow start one.
    """
    words, folder = [str(word) for word in words], str(folder or Path.cwd())
    env = {**(os.environ if env is None else env)}
    if NEW_INTERPRETER in env or _python_variables(env) != _python_variables(os.environ):
        return subprocess.Popen(
            [sys.executable, *words], cwd=folder, env=env, stdin=stdin, stdout=stdout, stderr=stderr,
            start_new_session=session, text=True,
        )  # fmt: skip
    return Process(words, folder, env, [stdin, stdout, stderr], session=session)


def install_commands():
    """Install ``posthouse`` and ``python`` in this folder as commands that fork, for shells and scripts."""
    folder = Path(COMMANDS_FOLDER).absolute()
    folder.mkdir()
    for name, first in {"posthouse": ["-m", "posthouse"], "python": []}.items():
        program = folder / name
        program.write_text(f"#!{sys.executable} -IS\nFIRST = {first}\n{COMMAND.read_text()}")
        program.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


def socket_path():
    """Return the socket of the fork server that started this process, or of an own one."""
    return inherited_socket_path or os.environ.get(ADDRESS) or _own_server().socket_path


def _python_variables(env):
    return {name: env[name] for name in env if name.startswith("PYTHON") and name not in FORKABLE_VARIABLES}


def _text(file):
    file.seek(0)
    return file.read().decode()


class Process:
    """The part of subprocess.Popen that tests use."""

    def __init__(self, words, folder, env, files, *, session):
        self.args = words
        self.returncode = None
        self.stdout = self.stderr = None
        self._waiting = threading.Lock()
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(socket_path())
        theirs, ours = self._files(files)
        try:
            request = json.dumps([words, folder, env, session]).encode()
            socket.send_fds(self._connection, [NUMBER.pack(len(request))], theirs)
            self._connection.sendall(request)
            self.pid = self._read_int()
        finally:
            for file in ours:
                os.close(file)

    def _files(self, files):
        """Return the descriptors to hand over, and those of them to close afterwards."""
        theirs, ours = [], []
        for name, file in zip(("stdin", "stdout", "stderr"), files, strict=True):
            if file is None:
                theirs.append(len(theirs))
            elif file == subprocess.STDOUT:
                theirs.append(theirs[1])
            elif file == subprocess.DEVNULL:
                ours.append(os.open(os.devnull, os.O_RDWR))
                theirs.append(ours[-1])
            elif file == subprocess.PIPE:
                mine, end = os.pipe()
                setattr(self, name, os.fdopen(mine))
                ours.append(end)
                theirs.append(end)
            else:
                theirs.append(file if isinstance(file, int) else file.fileno())
        return theirs, ours

    def _read_int(self):
        data = self._connection.recv(NUMBER.size, socket.MSG_WAITALL)
        if not data:
            raise ConnectionError("the fork server is gone")
        return NUMBER.unpack(data)[0]

    def poll(self):
        if self._waiting.acquire(blocking=False):
            try:
                self._poll_exit(0)
            finally:
                self._waiting.release()
        return self.returncode

    def _poll_exit(self, seconds):
        if self.returncode is None:
            self._connection.settimeout(seconds)
            with suppress(TimeoutError, BlockingIOError):
                self.returncode = self._read_int()
                self._connection.close()

    def wait(self, timeout=None):
        with self._waiting:
            self._poll_exit(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """Read the outputs that are pipes and wait for the end of the process."""
        outputs = {}
        readers = [
            threading.Thread(target=lambda file=file: outputs.update({file: file.read()}), daemon=True)
            for file in (self.stdout, self.stderr)
            if file is not None and not file.closed
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        for file in outputs:
            file.close()
        return outputs.get(self.stdout), outputs.get(self.stderr)

    def send_signal(self, number):
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and the fork server is about to report that
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()
        self.wait()


@cache
def _own_server():
    return _ForkServer()


class _ForkServer:
    """The forking process; it ends with this one."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="forkserver-")
        self.socket_path = f"{self._folder.name}/socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.socket_path)
            listening.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, FORKSERVER, str(listening.fileno())], pass_fds=[listening.fileno()],
                stdin=subprocess.PIPE,
            )  # fmt: skip
        atexit.register(self._close)

    def _close(self):
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()
