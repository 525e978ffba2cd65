"""The guardian's loop: forks minders, has an eye on the worker and on them."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys

from . import kernel
from .launch import hurry, prepare
from .minder import FORSAKEN, do_nothing, receive, say, serve
from .tree import descendants, end_all, send

_LOOK_AROUND_MS = 1000
_PATIENCE_WITH_MINDERS = 0.2
# Who stops the service signals all of it, and the worker decides; a closed socket is an error to handle.
_NOT_FOR_US = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class Guardian:
    def __init__(self, worker: socket.socket, worker_pid: int) -> None:
        self._worker = worker
        self._worker_pid = worker_pid
        self._wakeup = _listen_to_children()
        # Their sockets, held here too: when a minder is killed, what became of its command is still reported.
        self._minders: dict[int, socket.socket] = {}

    def run(self) -> None:
        _prepare()
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._worker, select.POLLIN)
        death = _watch(self._worker_pid)
        if death is not None:
            poll.register(death, select.POLLIN)
        while os.getppid() == self._worker_pid:
            ready = {fd for fd, _ in poll.poll(_LOOK_AROUND_MS)}
            if self._wakeup in ready:
                self._collect()
            if self._worker.fileno() in ready and not self._take():
                break
        self._leave()

    def _take(self) -> bool:
        """Forks a minder for the socket that the worker sent. False: the worker has hung up."""
        _, received = receive(self._worker)
        if not received:
            return False
        control = socket.socket(fileno=received[0])
        guardian = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            say(control, "refused", stage="fork", number=error.errno, text=error.strerror)
            control.close()
            return True
        if pid == 0:
            self._be_minder(control, guardian)
        self._minders[pid] = control
        return True

    def _be_minder(self, control: socket.socket, guardian: int) -> None:
        code = 1
        try:
            for other in (self._worker, *self._minders.values()):
                other.close()
            serve(control, guardian)
            code = 0
        except BaseException:  # noqa: BLE001 - shown, and never back into the guardian's loop
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _collect(self) -> None:
        """Takes leave of the minders that have ended. The command of one that was killed is ended."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)
        killed: list[socket.socket] = []
        while dead := _next_dead():
            pid, status = dead
            control = self._minders.pop(pid, None)
            if control is None:
                continue  # an orphan of a killed minder
            if status == 0:
                control.close()
            else:
                killed.append(control)
        if killed:
            end_all(self._orphans_left, spare=self._minders)
        for control in killed:
            say(control, "lost", text="the process that looked after the command was killed")
            control.close()

    def _orphans_left(self) -> bool:
        """Looks twice: a process that changes its pid may be overlooked once."""
        for _ in range(2):
            for pid in descendants(self._minders):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if descendants(self._minders):
                return True
        return False

    def _leave(self) -> None:
        """The worker is gone: so shall be all that it started."""
        while self._minders:
            for pid in self._minders:
                send(pid, FORSAKEN)  # again and again: a minder between two commands may miss one
            select.select([self._wakeup], [], [], _PATIENCE_WITH_MINDERS)
            self._collect()


def _prepare() -> None:
    gc.disable()
    gc.freeze()  # a forked minder then shares our memory
    kernel.name_process("posthouse-guard")
    kernel.adopt_orphans()
    prepare()
    hurry()
    for number in _NOT_FOR_US:
        signal.signal(number, do_nothing)


def _listen_to_children() -> int:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, do_nothing)
    return reading


def _watch(pid: int) -> int | None:
    """Readable once the process has died. A socket is not enough: others may have inherited its end."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # we look at our parent's pid every second


def _next_dead() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def main(descriptor: int, worker_pid: int) -> None:
    Guardian(socket.socket(fileno=descriptor), worker_pid).run()
