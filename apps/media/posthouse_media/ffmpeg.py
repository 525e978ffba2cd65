"""Runs of ffmpeg with progress, which end with the caller."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import IO

_ERROR_BYTES = 4000
_ERROR_LINES = 5
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/:'\"]+/)+")


class FfmpegFailed(Exception):
    """ffmpeg failed. The message has its last error lines, without the folders of files."""


def ffmpeg_path() -> str:
    """Return the path of the ffmpeg in MEDIA_FFMPEG, of the system's, or of the one from PyPI."""
    named = os.environ.get("MEDIA_FFMPEG") or "ffmpeg"
    path = shutil.which(named)
    if path is not None:
        return path
    if named != "ffmpeg":
        raise FfmpegFailed(
            f"MEDIA_FFMPEG names {named!r}, which is not a program; set it to the path of ffmpeg"
        )
    import imageio_ffmpeg  # noqa: PLC0415 - only if the system has none

    return str(imageio_ffmpeg.get_ffmpeg_exe())


def ffmpeg_environment() -> dict[str, str]:
    """Return the variables to run ffmpeg with.

    The static build from PyPI (7.0.2) crashes when it loads the character sets of this system, which it does
    for each MPEG-TS file. Without them it reads UTF-8 and Latin names.
    """
    is_static = "imageio_ffmpeg" in Path(ffmpeg_path()).parts
    return {**os.environ, "GCONV_PATH": os.devnull} if is_static else dict(os.environ)


def run_ffmpeg(*arguments: str, on_progress: Callable[[float], object] | None = None) -> None:
    """Run ffmpeg to its end. An exception, also one of ``on_progress``, kills it.

    - ``on_progress``: called with the seconds of output that are written.
    """
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - our own command, no shell
            _command(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=ffmpeg_environment(),
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                seconds = _seconds(line)
                if seconds is not None and on_progress is not None:
                    on_progress(seconds)
            process.wait()
        except BaseException:
            process.kill()
            raise
        _check(process.returncode, errors, arguments)


async def stream_ffmpeg(*arguments: str) -> AsyncGenerator[float, None]:
    """Run ffmpeg and yield the seconds of output that are written. Closing the generator kills ffmpeg.

    A loop that may end early belongs into ``contextlib.aclosing``, which closes the generator at once.
    """
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *_command(arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=ffmpeg_environment(),
        )
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                seconds = _seconds(line)
                if seconds is not None:
                    yield seconds
            _check(await process.wait(), errors, arguments)
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _command(arguments: Sequence[str]) -> list[str]:
    return [ffmpeg_path(), "-nostdin", "-y", "-v", "error", "-progress", "pipe:1", *arguments]


def _seconds(line: bytes) -> float | None:
    name, _, value = line.strip().partition(b"=")
    return int(value) / 1_000_000 if name == b"out_time_us" and value.isdigit() else None


def _check(code: int, errors: IO[bytes], arguments: Sequence[str]) -> None:
    if code:
        reason = _without_folders(_last_lines(errors), arguments)
        raise FfmpegFailed(
            f"ffmpeg failed with exit code {code}: {reason or 'no error message was reported'}"
        )


def _last_lines(errors: IO[bytes]) -> str:
    size = errors.seek(0, 2)
    errors.seek(max(0, size - _ERROR_BYTES))
    lines = errors.read().decode(errors="replace").splitlines()
    return " ".join(line.strip() for line in lines[-_ERROR_LINES:] if line.strip())


def _without_folders(text: str, arguments: Sequence[str]) -> str:
    for argument in arguments:
        if argument.startswith("/"):
            text = text.replace(f"{PurePath(argument).parent}/", "")
    return _FOLDERS.sub("", text)
