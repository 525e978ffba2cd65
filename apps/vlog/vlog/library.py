"""Files of videos: uploads and outputs. An output is a folder that is moved into place when complete and
never changed. The database determines the current output, so it changes with the job that created it.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from vlog import settings

LOCK = ".lock"
WORKSPACE_PREFIX = "vlog-"


class Library:
    """The library: ``videos/{slug}/{version}/master.m3u8`` and ``uploads/{video_id}.ext``."""

    def __init__(self, data_dir: Path) -> None:
        self.uploads = settings.uploads_dir(data_dir)
        self.videos = settings.videos_dir(data_dir)

    def source(self, name: str) -> Path:
        return self.uploads / name

    def output(self, slug: str, version: str) -> Path:
        return self.videos / slug / version

    @contextmanager
    def build_output(self, slug: str, version: str) -> Iterator[Path]:
        """Yield a temporary folder that is moved into place at the end of the block."""
        output = self.output(slug, version)
        output.parent.mkdir(parents=True, exist_ok=True)
        for abandoned in output.parent.glob(f".{version}-*"):
            _remove_unfinished(abandoned)
        folder = Path(tempfile.mkdtemp(prefix=f".{version}-", dir=output.parent))
        try:
            with locked_folder(folder):
                yield folder
                folder.chmod(0o755)
                (folder / LOCK).unlink()
                _move_into_place(folder, output)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def discard(self, slug: str, version: str) -> None:
        output = self.output(slug, version)
        shutil.rmtree(output, ignore_errors=True)
        with suppress(OSError):  # other outputs exist
            output.parent.rmdir()

    def sweep(self, known: Collection[str]) -> int:
        """Delete what killed processes left: unfinished outputs, and folders of videos that do not exist."""
        abandoned = [folder for folder in self.videos.glob("*/.*") if _is_abandoned(folder)]
        abandoned += [
            folder for folder in self.videos.glob("*") if folder.name not in known and _is_old(folder)
        ]
        for folder in abandoned:
            _remove_unfinished(folder)
        return len(abandoned)

    def partial_file(self, upload_id: str) -> Path:
        """Return the file of an unfinished upload."""
        return self.uploads / f".{upload_id}.part"

    def sweep_uploads(self, open_ids: Collection[str]) -> int:
        """Delete the files of unfinished uploads that are old and not among these."""
        kept = {self.partial_file(upload_id) for upload_id in open_ids}
        abandoned = [file for file in self.uploads.glob(".*.part") if file not in kept and _is_old(file)]
        for file in abandoned:
            file.unlink(missing_ok=True)
        return len(abandoned)

    def discard_all(self, slug: str, source: str | None) -> None:
        shutil.rmtree(self.videos / slug, ignore_errors=True)
        if source is not None:
            (self.uploads / source).unlink(missing_ok=True)


def _move_into_place(folder: Path, output: Path) -> None:
    """Rename atomically. An output of an earlier attempt is complete and identical, so it is kept."""
    try:
        folder.rename(output)
    except OSError:
        if not output.is_dir():
            raise


def _remove_unfinished(folder: Path) -> None:
    """Delete the folder of an attempt that was killed.

    It is renamed first: an attempt that lost its lease and still runs can then no longer move it into place.
    """
    renamed = folder.with_name(f"{folder.name}-{uuid4().hex}")
    with suppress(OSError):
        folder.rename(renamed)
        shutil.rmtree(renamed, ignore_errors=True)


def _is_old(folder: Path) -> bool:
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime > settings.abandoned_seconds()
    return False


def _is_abandoned(folder: Path) -> bool:
    """Return whether no process uses a temporary folder: its lock is free, or it is old and has none."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return _is_old(folder)
    except OSError:
        return False
    return True


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a temporary folder. The kernel releases the lock when the process ends, also after SIGKILL."""
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep_workspaces() -> int:
    """Delete the temporary folders of attempts on this machine that were killed."""
    abandoned = [
        folder for folder in Path(tempfile.gettempdir()).glob(f"{WORKSPACE_PREFIX}*") if _is_killed(folder)
    ]
    for folder in abandoned:
        shutil.rmtree(folder, ignore_errors=True)
    return len(abandoned)


def _is_killed(folder: Path) -> bool:
    """Return whether the lock of a workspace is free. One that was kept for inspection has none."""
    return (folder / LOCK).exists() and _is_abandoned(folder)


@contextmanager
def workspace() -> Iterator[Path]:
    """Yield a temporary folder for an attempt. After a failure it may be kept for inspection."""
    sweep_workspaces()
    folder = Path(tempfile.mkdtemp(prefix=WORKSPACE_PREFIX))
    with locked_folder(folder):
        try:
            yield folder
        except BaseException:
            if not settings.cleanup_partial_on_failure():
                (folder / LOCK).unlink(missing_ok=True)
                raise
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
