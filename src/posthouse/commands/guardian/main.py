"""The guardian's loop: fork monitors, and watch the monitors and the worker."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys

from .launch import adopt_orphans, name_process, raise_priority
from .monitor import PARENT_DIED, do_nothing, receive, send_event, serve
from .tree import descendants, kill_descendants, send

_PARENT_CHECK_MS = 1000
_MONITOR_EXIT_SECONDS = 0.2
# Signals that the guardian ignores: when a service stops, all its processes get a signal, but the worker
# decides what to do; and writing to a closed socket must raise an error.
_IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class Guardian:
    """The process that forks monitors."""

    def __init__(self, worker: socket.socket, worker_pid: int) -> None:
        self._worker = worker
        self._worker_pid = worker_pid
        self._wakeup = _listen_to_children()
        # The sockets of the monitors are also open here: if a monitor is killed, the guardian reports the end
        # of its command.
        self._monitors: dict[int, socket.socket] = {}

    def run(self) -> None:
        _prepare()
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._worker, select.POLLIN)
        death = _watch(self._worker_pid)
        if death is not None:
            poll.register(death, select.POLLIN)
        timeout = _PARENT_CHECK_MS if death is None else None
        while os.getppid() == self._worker_pid:
            ready = {fd for fd, _ in poll.poll(timeout)}
            if self._wakeup in ready:
                self._reap_monitors()
            if self._worker.fileno() in ready and not self._fork_monitor():
                break
        self._shut_down()

    def _fork_monitor(self) -> bool:
        """Fork a monitor for the socket that the worker sent. Return False if the worker has disconnected."""
        _, received = receive(self._worker)
        if not received:
            return False
        control = socket.socket(fileno=received[0])
        guardian = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            send_event(control, "refused", stage="fork", number=error.errno, text=error.strerror)
            control.close()
            return True
        if pid == 0:
            self._run_monitor(control, guardian)
        self._monitors[pid] = control
        return True

    def _run_monitor(self, control: socket.socket, guardian: int) -> None:
        code = 1
        try:
            for other in (self._worker, *self._monitors.values()):
                other.close()
            serve(control, guardian)
            code = 0
        except BaseException:  # noqa: BLE001 - printed; must not return into the guardian's loop
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _reap_monitors(self) -> None:
        """Reap the monitors that have ended. If one was killed, its command is killed too."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)
        killed: list[socket.socket] = []
        while dead := _next_dead():
            pid, status = dead
            control = self._monitors.pop(pid, None)
            if control is None:
                continue  # an orphan of a killed monitor
            if status == 0:
                control.close()
            else:
                killed.append(control)
        if killed:
            kill_descendants(self._orphans_left, exclude=self._monitors)
        for control in killed:
            send_event(control, "lost", text="the supervising process of the command was killed")
            control.close()

    def _orphans_left(self) -> bool:
        """Return whether orphans are left. Check twice: a process that changes its pid may be missed once."""
        for _ in range(2):
            for pid in descendants(self._monitors):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if descendants(self._monitors):
                return True
        return False

    def _shut_down(self) -> None:
        """Kill everything that the worker started, after the worker has died."""
        while self._monitors:
            for pid in self._monitors:
                send(pid, PARENT_DIED)  # repeated, because a monitor between two commands may miss a signal
            select.select([self._wakeup], [], [], _MONITOR_EXIT_SECONDS)
            self._reap_monitors()


def _prepare() -> None:
    gc.disable()
    gc.freeze()  # forked monitors then share the guardian's memory
    name_process("posthouse-guard")
    adopt_orphans()
    raise_priority()
    _take_over_signals()


def _take_over_signals() -> None:
    """Unblock all signals and handle those that are ignored, because of nohup or a shell for example.

    An executed program inherits ignored and blocked signals, but not signal handlers.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    ignored = [number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN]
    for number in (*_IGNORED_SIGNALS, *ignored):
        signal.signal(number, do_nothing)


def _listen_to_children() -> int:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, do_nothing)
    return reading


def _watch(pid: int) -> int | None:
    """Return a descriptor that is readable once the process has died.

    The worker's socket does not suffice: other processes may have inherited the worker's end.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # the parent's pid is checked every second instead


def _next_dead() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def main(descriptor: int, worker_pid: int) -> None:
    Guardian(socket.socket(fileno=descriptor), worker_pid).run()
