"""Where videos are: uploads as they came, and outputs. An output is a folder that is put in its place whole
and never changed. Which one is shown is said in the database, so it changes with the job that made it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vlog import settings


class Library:
    """``videos/{slug}/{version}/master.m3u8`` and ``uploads/{video_id}.ext``."""

    def __init__(self, data_dir: Path) -> None:
        self.uploads = settings.uploads_dir(data_dir)
        self.videos = settings.videos_dir(data_dir)

    def source(self, name: str) -> Path:
        return self.uploads / name

    def output(self, slug: str, version: str) -> Path:
        return self.videos / slug / version

    @contextmanager
    def building(self, slug: str, version: str) -> Iterator[Path]:
        """An empty folder beside the place where its content belongs once the block has ended."""
        place = self.output(slug, version)
        place.parent.mkdir(parents=True, exist_ok=True)
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
        with suppress(OSError):  # others are there
            place.parent.rmdir()

    def discard_all(self, slug: str, source: str | None) -> None:
        shutil.rmtree(self.videos / slug, ignore_errors=True)
        if source is not None:
            (self.uploads / source).unlink(missing_ok=True)


def _settle(folder: Path, place: Path) -> None:
    """In one step. What an earlier attempt has put there is whole and the same, and may be shown already."""
    try:
        folder.rename(place)
    except OSError:
        if not place.is_dir():
            raise


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for the length of an attempt; after a failed one it may be wanted for a look."""
    folder = Path(tempfile.mkdtemp(prefix="vlog-"))
    try:
        yield folder
    except BaseException:
        if settings.cleanup_partial_on_failure():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
