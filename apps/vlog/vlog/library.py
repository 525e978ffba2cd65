"""Files of videos: uploads and outputs. An output is a folder that is moved into place when complete and
never changed. The database determines the current output, so it changes with the job that created it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from vlog import settings


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
    def building(self, slug: str, version: str) -> Iterator[Path]:
        """Yield a temporary folder that is moved into place at the end of the block."""
        place = self.output(slug, version)
        place.parent.mkdir(parents=True, exist_ok=True)
        for left in place.parent.glob(f".{version}-*"):
            _remove_unfinished(left)
        folder = Path(tempfile.mkdtemp(prefix=f".{version}-", dir=place.parent))
        try:
            yield folder
            folder.chmod(0o755)
            _settle(folder, place)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def discard(self, slug: str, version: str) -> None:
        place = self.output(slug, version)
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # other outputs exist
            place.parent.rmdir()

    def discard_all(self, slug: str, source: str | None) -> None:
        shutil.rmtree(self.videos / slug, ignore_errors=True)
        if source is not None:
            (self.uploads / source).unlink(missing_ok=True)


def _settle(folder: Path, place: Path) -> None:
    """Rename atomically. An output of an earlier attempt is complete and identical, so it is kept."""
    try:
        folder.rename(place)
    except OSError:
        if not place.is_dir():
            raise


def _remove_unfinished(folder: Path) -> None:
    """Delete the folder of an attempt that was killed.

    It is renamed first: an attempt that lost its lease and still runs can then no longer move it into place.
    """
    away = folder.with_name(f"{folder.name}-{uuid4().hex}")
    with suppress(OSError):
        folder.rename(away)
        shutil.rmtree(away, ignore_errors=True)


@contextmanager
def workspace() -> Iterator[Path]:
    """Yield a temporary folder for an attempt. After a failure it may be kept for inspection."""
    folder = Path(tempfile.mkdtemp(prefix="vlog-"))
    try:
        yield folder
    except BaseException:
        if settings.cleanup_partial_on_failure():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
