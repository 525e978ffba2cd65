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
_ABOVE = 64  # descriptors for the program get numbers below this
_NICE_OF_GUARDIANS = -10
_NICE = os.getpriority(os.PRIO_PROCESS, 0)


class LaunchError(Exception):
    """The program did not start. ``stage`` is fork, limits, cwd or program."""

    def __init__(self, stage: str, number: int, text: str) -> None:
        self.stage = stage
        self.number = number
        super().__init__(text)


def raise_priority() -> None:
    """Raise the supervisor's priority (root only), so that it can kill commands on an overloaded machine."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(_NICE, _NICE_OF_GUARDIANS))


def _restore_priority() -> None:
    """Undo ``raise_priority``. If the worker was reniced after its start, the new priority is kept."""
    if os.getpriority(os.PRIO_PROCESS, 0) < _NICE:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def launch(request: Request, descriptors: Sequence[int]) -> int:
    """Start the program in a new session and return its pid when the program runs.

    ``descriptors`` are the descriptors for the program: stdout, stderr, and others as 3, 4 and so on.
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
        _exec_child(request, descriptors, writing, parent)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        failure = pipe.read()  # ends when the program is executed
    if failure:
        os.waitpid(pid, 0)
        raise LaunchError(*json.loads(failure))
    return pid


def _exec_child(request: Request, descriptors: Sequence[int], error_pipe: int, parent: int) -> NoReturn:
    """Run the program, in the child. Never returns or raises."""
    stage = "limits"
    try:
        os.setsid()
        signal_when_parent_dies(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        error_pipe = _hand_over(descriptors, error_pipe)
        _restore_priority()
        _limit(request)
        stage = "cwd"
        os.chdir(request["cwd"])
        stage = "program"
        _execute(request["argv"][0], request["argv"], request["env"])
    except OSError as error:
        os.write(error_pipe, json.dumps([stage, error.errno, error.strerror]).encode())
    except BaseException as error:  # noqa: BLE001 - nothing may propagate into the monitor's code
        os.write(error_pipe, json.dumps([stage, 0, f"{type(error).__name__}: {error}"]).encode())
    finally:
        os._exit(127)


def _hand_over(descriptors: Sequence[int], error_pipe: int) -> int:
    """Number the descriptors from 1 on. Return the new number of ``error_pipe``, which may be in use."""
    if len(descriptors) == _STREAMS:
        os.dup2(descriptors[0], 1)
        os.dup2(descriptors[1], 2)
        return error_pipe
    above = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for each in (error_pipe, *descriptors)]
    for number, descriptor in enumerate(above[1:], start=1):
        os.dup2(descriptor, number)
    return above[0]


def _execute(program: str, argv: list[str], env: dict[str, str]) -> NoReturn:
    """Execute the program. os.execvpe does the same, but takes twice as long."""
    if "/" in program:
        os.execve(program, argv, env)  # noqa: S606 - no shell on purpose
    failure: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        try:
            os.execve(f"{folder}/{program}", argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error  # the file exists: this error is more specific than "not found"
    raise failure


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
        _raise_oom_score()


def _set(limit: int, value: int, grace: int = 0) -> None:
    """Set a limit, but never above that of this process."""
    hard = resource.getrlimit(limit)[1]
    top = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
    resource.setrlimit(limit, (min(value, top), top))


def _raise_oom_score() -> None:
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
