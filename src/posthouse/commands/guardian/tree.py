"""Kill every descendant of this process.

/proc/…/children is not used, because many kernels lack it: all of /proc is read (2 ms for 200 processes). In
theory a pid can be reused between the read and the signal, but only if all pids are used up in between.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection

_ROUNDS_OF_STOPPING = 50
_SHORTEST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.02


def descendants(spare: Collection[int] = (), meet: Callable[[int], None] = lambda _: None) -> set[int]:
    """Return the living descendants, without the processes in ``spare`` and their descendants.

    ``meet`` is called as soon as a descendant is seen: a process that changes its pid every few milliseconds
    would have another pid at the end of the scan.
    """
    family = {os.getpid()}
    strangers: dict[int, list[int]] = {}
    for name in _names():
        if name.isdigit() and (parent := _living_parent(name)):
            if parent in family:
                _welcome(int(name), family, spare, meet)
            else:
                strangers.setdefault(parent, []).append(int(name))
    waiting = list(family)
    while waiting:  # descendants whose pid is lower than that of their parent
        children = strangers.get(waiting.pop(), ())
        waiting += [child for child in children if _welcome(child, family, spare, meet)]
    return family - {os.getpid()}


def _welcome(pid: int, family: set[int], spare: Collection[int], meet: Callable[[int], None]) -> bool:
    if pid in spare or pid in family:
        return False
    family.add(pid)
    meet(pid)
    return True


def _names() -> list[str]:
    try:
        return os.listdir("/proc")  # noqa: PTH208 - pathlib would take twice as long
    except FileNotFoundError:  # not Linux
        return []


def _living_parent(pid: str) -> int:
    """Return the parent of a process that has not ended, or 0."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return 0
    try:
        status = os.read(file, 512)
    except OSError:
        return 0
    finally:
        os.close(file)
    state, parent = status[status.rindex(b")") + 2 :].split(b" ", 2)[:2]
    return 0 if state in b"ZX" else int(parent)


def end_all(left: Callable[[], bool], *, spare: Collection[int] = (), patience: float = float("inf")) -> bool:
    """Kill all descendants until ``left`` returns False. ``left`` also reaps dead processes.

    All processes are stopped first: a stopped process cannot fork, so a fork bomb cannot outrun the scan, and
    no process can replace a killed sibling. Return False if a process is alive after ``patience`` seconds,
    which happens only to a process that hangs inside the kernel.
    """
    deadline = time.monotonic() + patience
    pause = _SHORTEST_PAUSE
    if left():
        _stop(spare)
    while left():
        descendants(spare, lambda pid: send(pid, signal.SIGKILL))
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return True


def _stop(spare: Collection[int]) -> None:
    stopped: set[int] = set()

    def stop(pid: int) -> None:
        if pid not in stopped:
            send(pid, signal.SIGSTOP)

    for _ in range(_ROUNDS_OF_STOPPING):
        seen = descendants(spare, stop)
        if seen <= stopped:
            return
        stopped |= seen


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def send_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
