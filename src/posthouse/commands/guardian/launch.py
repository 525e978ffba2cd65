"""Start a program in a child process: descriptors, limits, and execution.

The calls of prctl(2) are missing in the standard library. On systems other than Linux they do nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

_SET_PARENT_DEATH_SIGNAL = 1
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36
_SET_NO_NEW_PRIVILEGES = 38

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

AVAILABLE = _libc is not None


def _prctl(option: int, value: int | bytes) -> bool:
    return _libc is not None and _libc.prctl(option, value, 0, 0, 0) == 0


def name_process(name: str) -> None:
    """Set the name that ``ps`` shows, at most 15 characters."""
    _prctl(_SET_NAME, name.encode())


def adopt_orphans() -> bool:
    """Become the parent of orphaned descendants, instead of init."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_dies(number: int) -> None:
    _prctl(_SET_PARENT_DEATH_SIGNAL, number)


def forbid_new_privileges() -> None:
    """Forbid new privileges, because this process could not kill a program that became root."""
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)


Request = dict[str, Any]

_MEGABYTE = 1024 * 1024
_CPU_GRACE_SECONDS = 2
# RLIMIT_DATA counts private writable memory. RLIMIT_AS also counts reserved memory: node, Java and Go reserve
# many gigabytes and would not start under it.
_MEMORY = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
_OOM_SCORE = b"500"


_STREAMS = 2  # stdout and stderr, which all programs get
_ABOVE = 64  # no descriptor that is handed over gets a number from here on
_NICE_OF_GUARDIANS = -10
_NICE = os.getpriority(os.PRIO_PROCESS, 0)


class LaunchError(Exception):
    """The program did not start. ``stage`` is fork, limits, cwd or program."""

    def __init__(self, stage: str, number: int, text: str) -> None:
        self.stage = stage
        self.number = number
        super().__init__(text)


def hurry() -> None:
    """Raise the supervisor's priority (root only), so that it can kill commands on an overloaded machine."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(_NICE, _NICE_OF_GUARDIANS))


def _slow_down() -> None:
    """Undo ``hurry``. If the worker was reniced after its start, the new priority is kept."""
    if os.getpriority(os.PRIO_PROCESS, 0) < _NICE:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def launch(request: Request, handed: Sequence[int]) -> int:
    """Start the program in a new session and return its pid when the program runs.

    ``handed`` are the descriptors for the program: stdout, stderr, and others as 3, 4 and so on.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise LaunchError("fork", error.errno or 0, error.strerror or "") from None
    if pid == 0:
        _become(request, handed, writing, parent)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        trouble = pipe.read()  # ends when the program is executed
    if trouble:
        os.waitpid(pid, 0)
        raise LaunchError(*json.loads(trouble))
    return pid


def _become(request: Request, handed: Sequence[int], trouble: int, parent: int) -> NoReturn:
    """Run the program, in the child. Never returns or raises."""
    stage = "limits"
    try:
        os.setsid()
        signal_when_parent_dies(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        trouble = _hand_over(handed, trouble)
        _slow_down()
        _limit(request)
        stage = "cwd"
        os.chdir(request["cwd"])
        stage = "program"
        _execute(request["argv"][0], request["argv"], request["env"])
    except OSError as error:
        os.write(trouble, json.dumps([stage, error.errno, error.strerror]).encode())
    except BaseException as error:  # noqa: BLE001 - nothing may propagate into the minder's code
        os.write(trouble, json.dumps([stage, 0, f"{type(error).__name__}: {error}"]).encode())
    finally:
        os._exit(127)


def _hand_over(handed: Sequence[int], trouble: int) -> int:
    """Number the descriptors from 1 on. Return the new number of ``trouble``, which may be one of these."""
    if len(handed) == _STREAMS:
        os.dup2(handed[0], 1)
        os.dup2(handed[1], 2)
        return trouble
    above = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for each in (trouble, *handed)]
    for number, descriptor in enumerate(above[1:], start=1):
        os.dup2(descriptor, number)
    return above[0]


def _execute(program: str, argv: list[str], env: dict[str, str]) -> NoReturn:
    """Execute the program. os.execvpe does the same, but takes twice as long."""
    if "/" in program:
        os.execve(program, argv, env)  # noqa: S606 - no shell on purpose
    refusal: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        try:
            os.execve(f"{folder}/{program}", argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refusal = error  # the file exists: this error is more specific than "not found"
    raise refusal


def _limit(request: Request) -> None:
    if request["confined"]:  # no core dumps, no way to become another user
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        forbid_new_privileges()
    if request["open_files"]:
        _set(resource.RLIMIT_NOFILE, request["open_files"])
    if request["memory_mb"]:
        _set(_MEMORY, request["memory_mb"] * _MEGABYTE)
    if request["cpu_seconds"]:  # first SIGXCPU, which a program may handle, then SIGKILL
        _set(resource.RLIMIT_CPU, request["cpu_seconds"], _CPU_GRACE_SECONDS)
    if request["expendable"]:
        _volunteer_for_the_oom_killer()


def _set(limit: int, value: int, grace: int = 0) -> None:
    """Set a limit, but never above that of this process."""
    hard = resource.getrlimit(limit)[1]
    top = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
    resource.setrlimit(limit, (min(value, top), top))


def _volunteer_for_the_oom_killer() -> None:
    """Make the kernel kill the command instead of the worker when memory runs out."""
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(file, _OOM_SCORE)
    except OSError:
        pass
    finally:
        os.close(file)
