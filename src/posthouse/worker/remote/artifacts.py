"""Uploads and downloads of artifacts over HTTP. Both resume after an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from posthouse.blobs import file_digest, reject_too_large, validate_artifact_name
from posthouse.blobs.store import CHUNK_BYTES
from posthouse.errors import InvalidArtifact, ServerUnavailable
from posthouse.worker.artifacts import settle_download
from posthouse.worker.remote.client import HttpConnection, content_of, error_of

PIECE_OF_UPLOAD = 32 * 2**20
"""A size that proxies accept within their timeouts."""


class HttpArtifactStore:
    def __init__(self, connection: HttpConnection, limit: int) -> None:
        self._connection = connection
        self._limit = limit

    async def close(self) -> None:
        """Do nothing: the connection is shared."""

    async def put(self, job_id: UUID, token: UUID, name: str, path: Path) -> dict[str, Any]:
        digest = await asyncio.to_thread(file_digest, path)
        reject_too_large(digest.size, self._limit)
        url = _path(job_id, name)
        headers = {"X-Lease-Token": str(token), "X-Content-SHA256": digest.sha256.hex()}
        headers["Content-Type"] = "application/octet-stream"
        offset = 0
        if digest.size > PIECE_OF_UPLOAD:
            response = await self._answered("HEAD", url, headers=headers)
            offset = int(response.headers["Upload-Offset"])
        while True:
            end = min(digest.size, offset + PIECE_OF_UPLOAD)
            if digest.size:
                headers["Content-Range"] = f"bytes {offset}-{end - 1}/{digest.size}"
            body = _pieces(path, offset, end)
            response = await self._answered("PUT", url, headers=headers, content=body)
            if response.status_code == httpx.codes.CREATED:
                kept: dict[str, Any] = content_of(response)
                return kept
            if response.status_code not in {httpx.codes.ACCEPTED, httpx.codes.CONFLICT}:
                raise error_of(response)
            if "Upload-Offset" not in response.headers:
                raise error_of(response)
            offset = int(response.headers["Upload-Offset"])

    async def get(self, job_id: UUID, token: UUID, name: str, path: Path, of: UUID | None) -> dict[str, Any]:
        part = path.with_name(path.name + ".part")
        await asyncio.to_thread(part.unlink, missing_ok=True)
        query = {} if of is None else {"of": str(of)}
        failures = 0
        while True:
            try:
                size, wanted = await self._get_some(_path(job_id, name), token, query, part)
                break
            except httpx.TransportError as error:
                failures += 1
                await self._connection.pause()
                if failures > MAX_RETRIES:
                    raise ServerUnavailable(f"{type(error).__name__}: {error}") from error
        got = await asyncio.to_thread(file_digest, part)
        settle_download(part, path, got.sha256.hex(), wanted)
        return {"name": name, "size": size, "sha256": wanted}

    async def _get_some(self, url: str, token: UUID, query: dict[str, str], part: Path) -> tuple[int, str]:
        """Append the received bytes to the partial file, and return the size and the expected SHA-256."""
        start = await asyncio.to_thread(_size, part)
        headers = {"X-Lease-Token": str(token)}
        if start:
            headers["Range"] = f"bytes={start}-"
        async with self._connection.client.stream("GET", url, headers=headers, params=query) as response:
            whole = start > 0 and response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE
            if not response.is_success and not whole:
                await response.aread()
                raise error_of(response)
            if start and response.status_code == httpx.codes.OK:
                raise InvalidArtifact("the server does not support range requests for artifacts")
            with await asyncio.to_thread(part.open, "ab") as file:
                if not whole:
                    async for data in response.aiter_bytes(CHUNK_BYTES):
                        await asyncio.to_thread(file.write, data)
            return await asyncio.to_thread(_size, part), response.headers.get("X-Content-SHA256", "")

    async def _answered(self, method: str, url: str, **arguments: Any) -> httpx.Response:
        try:
            response = await self._connection.client.request(method, url, **arguments)
        except httpx.TransportError as error:
            await self._connection.pause()
            raise ServerUnavailable(f"{type(error).__name__}: {error}") from error
        if response.is_server_error or response.status_code in {401, 403}:
            raise error_of(response)
        return response


MAX_RETRIES = 20


def _path(job_id: UUID, name: str) -> str:
    return f"jobs/{job_id}/artifacts/{quote(validate_artifact_name(name))}"


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


async def _pieces(path: Path, start: int, end: int) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        await asyncio.to_thread(file.seek, start)
        while start < end and (data := await asyncio.to_thread(file.read, min(CHUNK_BYTES, end - start))):
            start += len(data)
            yield data
