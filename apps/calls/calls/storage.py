"""Files by their path, in a folder or in an S3 bucket."""

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

from calls.settings import s3_options, storage_url

LINK_LIFE = timedelta(hours=12)


class NotStored(Exception):
    """There is no file at this path."""


class NoLinks(Exception):
    """A folder has no address from which others could fetch a file."""


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
        """A file on this machine: the one in the folder, or for the while a copy of the one in the bucket."""
        if self._folder is not None and (self._folder / path).is_file():
            yield self._folder / path
            return
        with tempfile.NamedTemporaryFile() as copy:
            for piece in self._pieces(path):
                copy.write(piece)
            copy.flush()
            yield Path(copy.name)

    def put(self, path: str, content: bytes | Path) -> None:
        """All of it or nothing: half a file is seen by nobody."""
        obstore.put(self._store, path, content)

    def remove(self, paths: Iterable[str]) -> None:
        """What is gone already is no error."""
        for path in paths:
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError:
                continue

    def link(self, path: str) -> str:
        """An address from which the holder may fetch the file for some hours."""
        if self._folder is not None:
            raise NoLinks("recognition in the cloud fetches the speech from a bucket: set CALLS_STORAGE_URL")
        return obstore.sign(self._store, "GET", path, LINK_LIFE)

    async def receive(self, path: str, pieces: AsyncIterator[bytes]) -> int:
        """Keeps pieces as they come and says how many bytes they were. If they break off, nothing is kept."""
        size = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for piece in pieces:
                size += len(piece)
                yield piece

        await obstore.put_async(self._store, path, counted())
        return size

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """Raises NotStored at once, not when the first piece is asked for."""
        try:
            answer = await obstore.get_async(self._store, path)
        except FileNotFoundError:
            raise NotStored(f"there is nothing at {path}") from None

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in answer.stream():
                yield bytes(piece)

        return pieces()

    def _pieces(self, path: str) -> Iterator[bytes]:
        try:
            answer = obstore.get(self._store, path)
        except FileNotFoundError:
            raise NotStored(f"there is nothing at {path}") from None
        for piece in answer.stream():
            yield bytes(piece)


@cache
def storage() -> Storage:
    return Storage(storage_url(), **s3_options())
