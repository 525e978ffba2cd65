"""A command on a terminal of its own."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from contextlib import contextmanager

from support import forkserver

SECONDS = 60


class Terminal:
    """What a person at the terminal sees and types."""

    def __init__(self, main, process):
        self._main, self.process = main, process
        self.shown = ""

    def read(self):
        """Read what has come; False at the end."""
        if not select.select([self._main], [], [], 1)[0]:
            return True
        try:
            data = os.read(self._main, 65536)
        except OSError:  # the command closed its side
            return False
        self.shown += data.decode()
        return bool(data)

    def wait_for(self, pattern):
        deadline = time.monotonic() + SECONDS
        while not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, f"{pattern!r} did not come: {self.shown!r}"
            assert self.read() or re.search(pattern, self.shown), f"it ended: {self.shown!r}"

    def type(self, keys):
        os.write(self._main, keys.encode())

    def end(self):
        """Read to the end; return the exit code."""
        while self.read():
            pass
        return self.process.wait(SECONDS)


@contextmanager
def terminal(posthouse, *arguments, rows=50, columns=140):
    """``posthouse ...`` on a terminal of this size, which is also the one that Ctrl-C comes from."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = forkserver.start_python(
        ["-m", "posthouse", *arguments], folder=posthouse.folder, session=True,
        env={**posthouse.env, "TERM": "xterm", "NO_COLOR": "1"}, stdin=other, stdout=other, stderr=other,
    )  # fmt: skip
    os.close(other)
    try:
        yield Terminal(main, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(main)
