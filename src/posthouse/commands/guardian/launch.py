"""Forks and executes the command.

Here every microsecond counts, and every page of memory that is touched. So signals are never ignored by us,
only handled by doing nothing: then nothing has to be restored before the command starts.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import sys
from typing import Any, NoReturn

from . import kernel

Request = dict[str, Any]

_MEGABYTE = 1024 * 1024
_CPU_GRACE_SECONDS = 2
# Of Linux' two limits, RLIMIT_DATA counts what a process can write to and does not share. RLIMIT_AS also
# counts what is only reserved: node, Java and Go reserve many gigabytes and would not start under it.
_MEMORY = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
_OOM_SCORE = b"500"


_NICE_OF_GUARDIANS = -10
_NICE = os.getpriority(os.PRIO_PROCESS, 0)


class LaunchError(Exception):
    """The program did not start. ``stage`` is fork, limits, cwd or program."""

    def __init__(self, stage: str, number: int, text: str) -> None:
        self.stage = stage
        self.number = number
        super().__init__(text)


def prepare() -> None:
    """What commands inherit, done once: no core dumps, no way to become another user."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernel.forbid_new_privileges()


def hurry() -> None:
    """Among a thousand busy processes the turn of who shall end them comes late. Root may go first."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(_NICE, _NICE_OF_GUARDIANS))


def launch(request: Request, stdout: int, stderr: int) -> int:
    """The pid of the command, which leads a session of its own. Returns when its program runs."""
    reading, writing = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise LaunchError("fork", error.errno or 0, error.strerror or "") from None
    if pid == 0:
        _become(request, stdout, stderr, writing, parent)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        trouble = pipe.read()  # ends when the program takes over
    if trouble:
        os.waitpid(pid, 0)
        raise LaunchError(*json.loads(trouble))
    return pid


def _become(request: Request, stdout: int, stderr: int, trouble: int, parent: int) -> NoReturn:
    """In the child: never returns, never raises."""
    stage = "limits"
    try:
        os.setsid()
        kernel.signal_when_parent_dies(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        _limit(request)
        stage = "cwd"
        os.chdir(request["cwd"])
        stage = "program"
        _execute(request["argv"][0], request["argv"], request["env"])
    except OSError as error:
        os.write(trouble, json.dumps([stage, error.errno, error.strerror]).encode())
    except BaseException as error:  # noqa: BLE001 - nothing may escape into the minder's code
        os.write(trouble, json.dumps([stage, 0, f"{type(error).__name__}: {error}"]).encode())
    finally:
        os._exit(127)


def _execute(program: str, argv: list[str], env: dict[str, str]) -> NoReturn:
    """Like os.execvpe, which is half as quick."""
    if "/" in program:
        os.execve(program, argv, env)  # noqa: S606 - no shell is what we want
    refusal: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        try:
            os.execve(f"{folder}/{program}", argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refusal = error  # it is there: that says more than that others are not
    raise refusal


def _limit(request: Request) -> None:
    if request["open_files"]:
        _set(resource.RLIMIT_NOFILE, request["open_files"])
    if request["memory_mb"]:
        _set(_MEMORY, request["memory_mb"] * _MEGABYTE)
    if request["cpu_seconds"]:  # first SIGXCPU, which a program may handle, then SIGKILL
        _set(resource.RLIMIT_CPU, request["cpu_seconds"], _CPU_GRACE_SECONDS)
    _volunteer_for_the_oom_killer()


def _set(limit: int, value: int, grace: int = 0) -> None:
    """Never above the limit that we are under ourselves."""
    hard = resource.getrlimit(limit)[1]
    top = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
    resource.setrlimit(limit, (min(value, top), top))


def _volunteer_for_the_oom_killer() -> None:
    """When memory runs out the kernel shall end the command, not the worker."""
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
