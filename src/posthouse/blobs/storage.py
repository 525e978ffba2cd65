"""Files of applications, in a folder or in a bucket of S3."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from posthouse.blobs.store import CHUNK_BYTES, app_storage, is_safe_path, private_folder
from posthouse.errors import ConfigurationError

_UNFINISHED = re.compile(r".*#\d+")
"""Names under which obstore writes files before it renames them."""


class NotStored(Exception):
    """The file does not exist in the storage."""


class StoredFile(NamedTuple):
    path: str
    size: int
    modified: datetime
    etag: str


class Storage:
    """A folder (``file:///folder``) or a bucket (``s3://bucket/prefix``).

    Paths are relative, with slashes. Files appear when they are complete. ``folder`` is None for a bucket.
    """

    def __init__(self, url: str, **options: str) -> None:
        self._api = _obstore()
        parts = urlsplit(url)
        self.folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
        if self.folder is not None:
            private_folder(self.folder)
            self._store: Any = self._api.store.LocalStore(self.folder, automatic_cleanup=True)
        elif parts.scheme == "s3" and parts.netloc:
            self._store = self._api.store.from_url(url, client_options=_client_options(options), **options)
        else:
            raise ConfigurationError(f"a storage must be file:///folder or s3://bucket/prefix, not {url!r}")

    def exists(self, path: str) -> bool:
        try:
            self.about(path)
        except NotStored:
            return False
        return True

    def size(self, path: str) -> int:
        return self.about(path).size

    def about(self, path: str) -> StoredFile:
        """Return size, time and ETag of a file. Raises NotStored."""
        with _not_stored_errors(path):
            return _stored_file(self._api.head(self._store, path))

    async def about_async(self, path: str) -> StoredFile:
        """Return size, time and ETag of a file. Raises NotStored."""
        with _not_stored_errors(path):
            return _stored_file(await self._api.head_async(self._store, path))

    def found(self, prefix: str) -> Iterator[StoredFile]:
        """Yield the files below a path without loading the whole list into memory."""
        for page in self._api.list(self._store, prefix):
            yield from map(_stored_file, page)

    def read(self, path: str, what: str = "file") -> bytes:
        """Return the content of a file. ``what``: its name in the message of NotStored."""
        return b"".join(self.chunks(path, what))

    def chunks(self, path: str, what: str = "file") -> Iterator[bytes]:
        with _not_stored_errors(path, what):
            response = self._api.get(self._store, path)
        for chunk in response.stream(min_chunk_size=CHUNK_BYTES):
            yield bytes(chunk)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` up to, but not including, ``end``."""
        if start >= end:
            return b""
        with _not_stored_errors(path):
            return bytes(self._api.get_range(self._store, path, start=start, end=end))

    async def stream(self, path: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Return the content, or a range of it, as a stream. Raises NotStored before the first read."""
        span: Any = {"offset": start} if end is None else (start, end)
        options = {"range": span} if start or end is not None else None
        with _not_stored_errors(path):
            response = await self._api.get_async(self._store, path, options=options)

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in response.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(piece)

        return pieces()

    @contextmanager
    def opened(self, path: str, what: str = "file") -> Iterator[Path]:
        """Yield a local path of the file: the file in the folder, or a temporary copy from the bucket."""
        if self.folder is not None:
            if not is_safe_path(path) or not (self.folder / path).is_file():
                raise NotStored(f"{what} not found at {path}")
            yield self.folder / path
            return
        with tempfile.NamedTemporaryFile(suffix=Path(path).suffix) as copy:
            for chunk in self.chunks(path, what):
                copy.write(chunk)
            copy.flush()
            yield Path(copy.name)

    def put(self, path: str, content: bytes | Path) -> None:
        """Store a file."""
        self._api.put(self._store, path, content)

    async def receive(self, path: str, pieces: AsyncIterator[bytes]) -> int:
        """Store a stream and return its size. If the stream is interrupted, nothing is stored."""
        size = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for piece in pieces:
                size += len(piece)
                yield piece

        await self._api.put_async(self._store, path, counted())
        return size

    def put_folder(self, prefix: str, folder: Path, last: str) -> None:
        """Replace the files below a path with those of a folder. ``last`` is stored last."""
        names = sorted((file.name for file in folder.iterdir()), key=lambda name: (name == last, name))
        for name in names:
            self.put(f"{prefix}/{name}", folder / name)
        self.keep_only(prefix, (f"{prefix}/{name}" for name in names))

    def keep_only(self, prefix: str, paths: Iterable[str]) -> None:
        """Delete all other files below a path, such as those of earlier runs."""
        kept = set(paths)
        self.remove([item.path for item in self.found(prefix) if item.path not in kept])

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files. Missing ones are ignored."""
        for path in paths:
            try:
                self._api.delete(self._store, path)
            except FileNotFoundError:  # S3 ignores missing files, a folder does not
                continue

    def remove_prefix(self, prefix: str) -> None:
        """Delete all files below a path, in a folder also those of interrupted writes."""
        if not is_safe_path(prefix):
            raise ValueError(f"{prefix!r} is not a valid prefix; use a relative path like a/b")
        if self.folder is not None:
            shutil.rmtree(self.folder / prefix, ignore_errors=True)
        self.remove([item.path for item in self.found(prefix)])

    def remove_older(self, prefix: str, than: timedelta, now: datetime) -> list[str]:
        """Delete the files below a path that have not changed for this time, and return their paths."""
        old = [item.path for item in self.found(prefix) if now - item.modified > than]
        self.remove(old)
        return old

    def remove_unfinished(self, than: timedelta, now: datetime) -> int:
        """Delete old temporary files of writes that were interrupted, and return their number.

        Buckets delete interrupted uploads by a lifecycle rule (AbortIncompleteMultipartUpload).
        """
        if self.folder is None:
            return 0
        files = [file for file in self.folder.rglob("*#*") if _UNFINISHED.fullmatch(file.name)]
        old = [file for file in files if now.timestamp() - _modified(file, now) > than.total_seconds()]
        for file in old:
            file.unlink(missing_ok=True)
        return len(old)

    def link(self, path: str, life: timedelta) -> str | None:
        """Return a signed URL for the download of a file; None for a folder."""
        return None if self.folder is not None else self._api.sign(self._store, "GET", path, life)

    def upload_url(self, path: str, life: timedelta) -> str | None:
        """Return a signed URL for the upload of a file; None for a folder."""
        return None if self.folder is not None else self._api.sign(self._store, "PUT", path, life)


def open_storage(app_name: str) -> Storage:
    """Return the storage of an application that ``app_storage`` selects."""
    chosen = app_storage(app_name)
    return Storage(chosen.url, **chosen.options)


def _obstore() -> Any:
    try:
        import obstore.store  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise ConfigurationError("the storage needs obstore: pip install 'posthouse[s3]'") from None
    return obstore


def _client_options(options: dict[str, str]) -> dict[str, Any]:
    usual = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    return {"allow_http": (options.get("endpoint") or usual).startswith("http://")}


def _stored_file(item: Any) -> StoredFile:
    return StoredFile(item["path"], item["size"], item["last_modified"], item["e_tag"] or "")


def _modified(file: Path, now: datetime) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # the write finished, and the file was renamed
        return now.timestamp()


@contextmanager
def _not_stored_errors(path: str, what: str = "file") -> Iterator[None]:
    if not is_safe_path(path):
        raise NotStored(f"{what} not found at {path}")
    try:
        yield
    except FileNotFoundError:
        raise NotStored(f"{what} not found at {path}") from None
