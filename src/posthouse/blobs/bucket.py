"""Artifact storage in a bucket of S3 or a compatible service."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from posthouse.blobs.choice import s3_options
from posthouse.blobs.files import PIECE
from posthouse.errors import ArtifactNotFound, ConfigurationError, StorageUnavailable


class BucketStore:
    """Artifacts in a bucket.

    Credentials and endpoint come from the usual variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    AWS_REGION, AWS_ENDPOINT_URL; or from S3_… and SUPABASE_…, see ``s3_options``.
    """

    def __init__(self, bucket: str, prefix: str) -> None:
        try:
            from obstore.store import S3Store  # noqa: PLC0415 - an optional dependency
        except ImportError:
            raise ConfigurationError("storage_url is in S3: pip install 'posthouse[s3]'") from None
        own: dict[str, Any] = s3_options(os.environ)
        usual = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
        address: str = own.get("endpoint") or usual
        if address:
            own["endpoint"] = address
            own["virtual_hosted_style_request"] = False  # understood by S3-compatible services
        self._bucket = S3Store(
            bucket,
            prefix=unquote(prefix).strip("/") or None,
            client_options={"allow_http": address.startswith("http://")},
            **own,
        )

    async def put(self, place: str, file: Path) -> None:
        """Upload a file, in parts if it is large. The object becomes visible only when it is complete."""
        with _told(place):
            await self._bucket.put_async(place, file)

    async def read(self, place: str, start: int, size: int) -> AsyncIterator[bytes]:
        if not size:
            return
        with _told(place):
            try:
                answer = await self._bucket.get_async(place, options={"range": (start, start + size)})
            except FileNotFoundError:
                raise ArtifactNotFound("the content of the artifact no longer exists in storage") from None
            async for piece in answer.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    async def delete(self, place: str) -> None:
        with _told(place):
            await self._bucket.delete_async(place)


@contextmanager
def _told(place: str) -> Iterator[None]:
    """Translate the bucket's errors to Posthouse errors."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - an optional dependency

    try:
        yield
    except (BaseError, OSError) as error:
        raise StorageUnavailable(f"the bucket rejected {place}: {str(error)[:300]}") from error
