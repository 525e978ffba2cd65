"""Ends every descendant of this process.

Not by /proc/…/children, which many kernels lack: all of /proc is read (2 ms for 200 processes). A pid may in
theory be reused between the look and the signal; for that, all pids would have to be used up in between.
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
    """Our living descendants, without those in ``spare`` and theirs.

    ``meet`` is called as soon as one is seen: who changes its pid every few milliseconds would be another one
    by the end of the look around.
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
    while waiting:  # for those whose pid is lower than that of their parent
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
        return os.listdir("/proc")  # noqa: PTH208 - pathlib would double the time
    except FileNotFoundError:  # not Linux
        return []


def _living_parent(pid: str) -> int:
    """The parent of a process that has not ended, or 0."""
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
    """Kills until ``left``, which also collects the dead, says that nothing is left.

    All are stopped first: a stopped process starts no other, so that a fork bomb cannot outrun the look
    around, and nobody sees a sibling die and replaces it. Returns False if some live on after ``patience``
    seconds, which only happens to a process that hangs inside the kernel.
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
