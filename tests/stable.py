"""Fresh horses: a process that has everything loaded, and forks one for each command, worker or script.

A command of its own takes 0.5 s to load what it needs, a worker 0.9 s, a server 1.8 s; the suite starts two
thousand. Forked, each is still a process with its own arguments, environment, folder, files, signals and exit
code. The process that forks has one thread and no loop, so that none of either is copied.
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

from stable_yard import CHILD, COMMANDS, NUMBER
from waiting import WAIT_SECONDS

__all__ = ["CHILD", "address", "commands", "posthouse", "run", "start"]

ADDRESS = "STABLE_ADDRESS"
"""Where processes started here find it."""
FRESH = "STABLE_FRESH"
"""A variable for who must be started by a new interpreter, as users do."""
COMMAND = Path(__file__).with_name("stable_command.py")
YARD = Path(__file__).with_name("stable_yard.py")
own_address = ""
"""Of the process that forks, where this is one of its forks."""
AS_IT_IS = {"PYTHONPATH"}
"""What of Python's own variables a fork can still follow."""


def posthouse(arguments, *, folder, env, stdin="", seconds=WAIT_SECONDS):
    """Runs ``posthouse`` with these arguments, and returns what subprocess.run would."""
    return run(["-m", "posthouse", *arguments], folder=folder, env=env, stdin=stdin, seconds=seconds)


def run(words, *, folder, env, stdin="", seconds=WAIT_SECONDS):
    """``python`` with these words, to its end."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        process = start(words, folder=folder, env=env, stdin=given, stdout=out, stderr=err)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(process.args, code, *(_text(file) for file in (out, err)))


def start(words, *, folder=None, env=None, stdin=subprocess.DEVNULL, stdout=None, stderr=None, session=False):
    """``python`` with these words, as subprocess.Popen would start it: a script, or what follows -m or -c.

    Variables of Python's that only a new interpreter would follow get one.
    """
    words, folder = [str(word) for word in words], str(folder or Path.cwd())
    env = {**(os.environ if env is None else env)}
    if FRESH in env or _of_python(env) != _of_python(os.environ):
        return subprocess.Popen(
            [sys.executable, *words], cwd=folder, env=env, stdin=stdin, stdout=stdout, stderr=stderr,
            start_new_session=session, text=True,
        )  # fmt: skip
    return Process(words, folder, env, [stdin, stdout, stderr], session=session)


def commands():
    """Let ``posthouse`` and ``python`` be forks where a shell or a script in this folder starts them."""
    folder = Path(COMMANDS).absolute()
    folder.mkdir()
    for name, first in {"posthouse": ["-m", "posthouse"], "python": []}.items():
        program = folder / name
        program.write_text(f"#!{sys.executable} -IS\nFIRST = {first}\n{COMMAND.read_text()}")
        program.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


def address():
    """Where the process is that forks: the one that started us, or one of our own."""
    return own_address or os.environ.get(ADDRESS) or _stable().address


def _of_python(env):
    return {name: env[name] for name in env if name.startswith("PYTHON") and name not in AS_IT_IS}


def _text(file):
    file.seek(0)
    return file.read().decode()


class Process:
    """As much of subprocess.Popen as tests use."""

    def __init__(self, words, folder, env, files, *, session):
        self.args = words
        self.returncode = None
        self.stdout = self.stderr = None
        self._waiting = threading.Lock()
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(address())
        theirs, ours = self._files(files)
        try:
            asked = json.dumps([words, folder, env, session]).encode()
            socket.send_fds(self._line, [NUMBER.pack(len(asked))], theirs)
            self._line.sendall(asked)
            self.pid = self._number()
        finally:
            for file in ours:
                os.close(file)

    def _files(self, files):
        """The descriptors to hand over, and which of them are to be closed afterwards."""
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

    def _number(self):
        said = self._line.recv(NUMBER.size, socket.MSG_WAITALL)
        if not said:
            raise ConnectionError("the process that forks is gone")
        return NUMBER.unpack(said)[0]

    def poll(self):
        if self._waiting.acquire(blocking=False):
            try:
                self._look(0)
            finally:
                self._waiting.release()
        return self.returncode

    def _look(self, seconds):
        if self.returncode is None:
            self._line.settimeout(seconds)
            with suppress(TimeoutError, BlockingIOError):
                self.returncode = self._number()
                self._line.close()

    def wait(self, timeout=None):
        with self._waiting:
            self._look(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """Both outputs to their ends, as far as they are pipes, and the end of the process."""
        said = {}
        readers = [
            threading.Thread(target=lambda file=file: said.update({file: file.read()}), daemon=True)
            for file in (self.stdout, self.stderr)
            if file is not None and not file.closed
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        for file in said:
            file.close()
        return said.get(self.stdout), said.get(self.stderr)

    def send_signal(self, number):
        if self.poll() is None:
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
def _stable():
    return _Stable()


class _Stable:
    """The process that forks, for as long as we live."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="stable-")
        self.address = f"{self._folder.name}/socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.address)
            listening.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, YARD, str(listening.fileno())], pass_fds=[listening.fileno()],
                stdin=subprocess.PIPE,
            )  # fmt: skip
        atexit.register(self._close)

    def _close(self):
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()
