"""File storage in a folder or an S3 bucket."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.store import LocalStore, from_url

from posthouse.blobs import app_storage

LINK_LIFE = timedelta(hours=12)


class NotStored(Exception):
    """The file does not exist in the storage."""


class SigningUnsupported(Exception):
    """A folder cannot create links for external services."""


class Storage:
    def __init__(self, url: str, **options: Any) -> None:
        parts = urlsplit(url)
        self._folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
        plain = str(options.get("endpoint", "")).startswith("http://")
        self._store: Any = (
            LocalStore(self._folder, mkdir=True)
            if self._folder is not None
            else from_url(url, **options, client_options={"allow_http": plain})
        )

    def exists(self, path: str) -> bool:
        try:
            obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def read(self, path: str) -> bytes:
        return b"".join(self._pieces(path))

    @contextmanager
    def opened(self, path: str) -> Iterator[Path]:
        """Yield a local file: the one in the folder, or a temporary copy from the bucket."""
        if self._folder is not None and (self._folder / path).is_file():
            yield self._folder / path
            return
        with tempfile.NamedTemporaryFile() as copy:
            for piece in self._pieces(path):
                copy.write(piece)
            copy.flush()
            yield Path(copy.name)

    def put(self, path: str, content: bytes | Path) -> None:
        """Store a file atomically."""
        obstore.put(self._store, path, content)

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""
        for path in paths:
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError:
                continue

    def link(self, path: str) -> str:
        """Return a signed URL of the file, valid for some hours."""
        if self._folder is not None:
            raise SigningUnsupported(
                "SpeechKit fetches the audio from a bucket, but the storage is a folder; set "
                "POSTHOUSE_STORAGE_URL or CALLS_STORAGE_URL to s3://bucket/prefix"
            )
        return obstore.sign(self._store, "GET", path, LINK_LIFE)

    async def receive(self, path: str, pieces: AsyncIterator[bytes]) -> int:
        """Store a stream atomically; return its size. If it is interrupted, nothing is stored."""
        size = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for piece in pieces:
                size += len(piece)
                yield piece

        await obstore.put_async(self._store, path, counted())
        return size

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """Return the content as a stream. Raises NotStored immediately, not on the first read."""
        try:
            answer = await obstore.get_async(self._store, path)
        except FileNotFoundError:
            raise NotStored(f"file {path} does not exist") from None

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in answer.stream():
                yield bytes(piece)

        return pieces()

    def _pieces(self, path: str) -> Iterator[bytes]:
        try:
            answer = obstore.get(self._store, path)
        except FileNotFoundError:
            raise NotStored(f"file {path} does not exist") from None
        for piece in answer.stream():
            yield bytes(piece)


@cache
def storage() -> Storage:
    chosen = app_storage("calls")
    return Storage(chosen.url, **chosen.options)
