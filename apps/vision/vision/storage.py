"""File storage in a folder or an S3 bucket."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, S3Store, from_url

from posthouse.blobs import app_storage

CHUNK_BYTES = 8 * 1024 * 1024
DENIED: tuple[type[Exception], ...] = (PermissionDeniedError, UnauthenticatedError)


class S3ObjectNotFound(Exception):
    """The file does not exist in the storage."""


class Found(NamedTuple):
    path: str
    modified: datetime


class Storage:
    """A storage. Paths are relative, with slashes."""

    def __init__(self, url: str, **options: Any) -> None:
        self.folder = Path(unquote(urlsplit(url).path)) if urlsplit(url).scheme == "file" else None
        self._store: Any
        if self.folder is not None:
            self._store = LocalStore(self.folder, mkdir=True)
        else:
            plain = str(options.get("endpoint", "")).startswith("http://")
            self._store = from_url(url, **options, client_options={"allow_http": plain})

    def exists(self, path: str) -> bool:
        try:
            obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def found(self, prefix: str) -> Iterator[Found]:
        """Yield the files below a path without loading the whole list into memory."""
        for page in obstore.list(self._store, prefix):
            for item in page:
                yield Found(item["path"], item["last_modified"])

    def get(self, path: str, what: str = "Object") -> bytes:
        return b"".join(bytes(chunk) for chunk in self.chunks(path, what))

    def chunks(self, path: str, what: str = "Object") -> Iterator[bytes]:
        try:
            answer = obstore.get(self._store, path)
        except FileNotFoundError:
            raise S3ObjectNotFound(f"{what} not found at {path}") from None
        for chunk in answer.stream(min_chunk_size=CHUNK_BYTES):
            yield bytes(chunk)

    @contextmanager
    def opened(self, path: str, what: str = "Object") -> Iterator[Path]:
        """Yield a local file: the one in the folder, or a temporary copy from the bucket."""
        if self.folder is not None:
            if not (self.folder / path).is_file():
                raise S3ObjectNotFound(f"{what} not found at {path}")
            yield self.folder / path
            return
        with tempfile.NamedTemporaryFile(suffix=Path(path).suffix) as file:
            for chunk in self.chunks(path, what):
                file.write(chunk)
            file.flush()
            yield Path(file.name)

    def put(self, path: str, content: bytes | Path) -> None:
        """Store a file atomically."""
        obstore.put(self._store, path, content)

    async def receive(self, path: str, pieces: AsyncIterator[bytes]) -> None:
        """Store a stream atomically: if it is interrupted, nothing is stored."""
        await obstore.put_async(self._store, path, pieces)

    def put_folder(self, prefix: str, folder: Path, last: str) -> None:
        """Replace the files below a path with those of a folder. ``last`` is stored last."""
        names = sorted((file.name for file in folder.iterdir()), key=lambda name: (name == last, name))
        for name in names:
            self.put(f"{prefix}/{name}", folder / name)
        self.keep_only(prefix, (f"{prefix}/{name}" for name in names))

    def keep_only(self, prefix: str, paths: Iterable[str]) -> None:
        """Delete all other files below a path, which earlier runs may have left."""
        kept = set(paths)
        self.remove([item.path for item in self.found(prefix) if item.path not in kept])

    def remove_older(self, prefix: str, than: timedelta, now: datetime) -> list[str]:
        old = [item.path for item in self.found(prefix) if now - item.modified > than]
        self.remove(old)
        return old

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError:  # S3 ignores missing files, a folder does not
                continue

    def upload_url(self, path: str, seconds: int) -> str | None:
        """Return a signed upload URL; None for a folder."""
        if not isinstance(self._store, S3Store):
            return None
        return obstore.sign(self._store, "PUT", path, timedelta(seconds=seconds))


@cache
def storage() -> Storage:
    """Return the configured storage."""
    chosen = app_storage("vision")
    return Storage(chosen.url, **chosen.options)
