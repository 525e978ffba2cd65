"""Keeps bytes in a bucket of S3, or of anything that speaks its protocol."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from posthouse.blobs.files import PIECE
from posthouse.errors import ArtifactNotFound, ConfigurationError, StorageUnavailable


class BucketStore:
    """Keys and address are those that every tool for S3 reads: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    AWS_REGION, AWS_ENDPOINT_URL.
    """

    def __init__(self, bucket: str, prefix: str) -> None:
        try:
            from obstore.store import S3Store  # noqa: PLC0415 - an extra
        except ImportError:
            raise ConfigurationError("storage_url is in S3: pip install 'posthouse[s3]'") from None
        address = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
        own: dict[str, Any] = {}
        if address:
            own["endpoint"] = address
            own["virtual_hosted_style_request"] = False  # what others than Amazon understand
        self._bucket = S3Store(
            bucket,
            prefix=unquote(prefix).strip("/") or None,
            client_options={"allow_http": address.startswith("http://")},
            **own,
        )

    async def put(self, place: str, file: Path) -> None:
        """Large ones go in parts. A place is never seen half full."""
        with _told(place):
            await self._bucket.put_async(place, file)

    async def read(self, place: str, start: int, size: int) -> AsyncIterator[bytes]:
        if not size:
            return
        with _told(place):
            try:
                answer = await self._bucket.get_async(place, options={"range": (start, start + size)})
            except FileNotFoundError:
                raise ArtifactNotFound("its bytes are gone") from None
            async for piece in answer.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    async def delete(self, place: str) -> None:
        with _told(place):
            await self._bucket.delete_async(place)


@contextmanager
def _told(place: str) -> Iterator[None]:
    """What a bucket can answer, in errors of ours."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra

    try:
        yield
    except (BaseError, OSError) as error:
        raise StorageUnavailable(f"the bucket refused {place}: {str(error)[:300]}") from error
