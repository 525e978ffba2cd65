"""Storage of artifacts and of the files of applications: a folder or an S3 bucket."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4

from posthouse.errors import (
    ArtifactNotFound,
    ArtifactTooLarge,
    ConfigurationError,
    InvalidArtifact,
    StorageUnavailable,
)
from posthouse.settings import Settings, load_settings

NAME_LIMIT = 200


def validate_artifact_name(name: str) -> str:
    """Validate an artifact name: a relative path such as ``hls/720p/index.m3u8``."""
    if not 0 < len(name) <= NAME_LIMIT:
        raise InvalidArtifact(f"an artifact name must have 1 to {NAME_LIMIT} characters")
    if not is_safe_path(name):
        raise InvalidArtifact(f"{name!r} is not a valid artifact name; use a relative path like a/b.txt")
    return name


def is_safe_path(name: str) -> bool:
    """Return whether the path stays inside its folder on every operating system."""
    if "\\" in name or ":" in name or not name.isprintable():
        return False
    return all(part not in {"", ".", ".."} for part in name.split("/"))


FOLDER, FILE = 0o700, 0o600
_OTHERS = 0o077


def private_folder(folder: Path) -> None:
    """Create a folder, and its missing parents, that only this user can access.

    An existing folder of this user loses the permissions of other users. A folder of another user, or one
    with the sticky bit such as /tmp, keeps its mode.
    """
    for missing in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
        missing.mkdir(mode=FOLDER, exist_ok=True)
    status = folder.stat()
    is_own = status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX
    if is_own and status.st_mode & _OTHERS:
        folder.chmod(FOLDER)


def private_opener(path: str, flags: int) -> int:
    """Open a file that only this user can read. It is the ``opener`` of ``open``."""
    return os.open(path, flags, FILE)


CHUNK_BYTES = 1 << 20


class FileBlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, key: str, file: Path) -> None:
        await asyncio.to_thread(self._put, key, file)

    def _put(self, key: str, file: Path) -> None:
        """Move the file to its path atomically, so that no partial file is visible, even after a crash."""
        target = self._folder / key
        private_folder(self._folder)
        private_folder(target.parent)
        temp_path = target.with_suffix(".part")
        try:
            file.replace(temp_path)
        except OSError:  # on another file system
            shutil.copyfile(file, temp_path)
        temp_path.chmod(FILE)
        with temp_path.open("rb") as written:
            os.fsync(written.fileno())
        temp_path.replace(target)

    async def read(self, key: str, start: int, size: int) -> AsyncIterator[bytes]:
        try:
            # Not in a thread: if the request were canceled meanwhile, the file would stay open.
            file = (self._folder / key).open("rb")
        except FileNotFoundError:
            raise ArtifactNotFound("the content of the artifact no longer exists in storage") from None
        try:
            await asyncio.to_thread(file.seek, start)
            while size > 0 and (piece := await asyncio.to_thread(file.read, min(CHUNK_BYTES, size))):
                size -= len(piece)
                yield piece
        finally:
            file.close()

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._delete, self._folder / key)

    def _delete(self, target: Path) -> None:
        target.unlink(missing_ok=True)
        with suppress(OSError):  # the folder is not empty
            target.parent.rmdir()


OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key")
_SUPABASE_ENDPOINT = "/storage/v1/s3"
_SUPABASE_REGION = "us-east-1"
"""Used if S3_REGION is not set. Supabase checks the signature with the region that the client sends."""


class AppStorage(NamedTuple):
    """The URL of a storage, ``file:///…`` or ``s3://bucket/prefix``, and the options of the bucket."""

    url: str
    options: dict[str, str]


def app_storage(name: str, env: Mapping[str, str] | None = None) -> AppStorage:
    """Return the storage of an application."""
    env = os.environ if env is None else env
    return AppStorage(_url(name, env), s3_options(env, name))


def app_folder(name: str, env: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of an application below POSTHOUSE_STORAGE_URL; None if that is not a folder."""
    shared = urlsplit(load_settings(env=env).storage_url)
    return Path(unquote(shared.path)) / name if shared.scheme == "file" else None


def s3_options(env: Mapping[str, str], name: str = "") -> dict[str, str]:
    """Return the options of a bucket that are set.

    obstore takes missing ones from AWS_… variables, or from the role of the machine.
    """
    prefixes = [f"{name.upper()}_S3_", "S3_"] if name else ["S3_"]
    found: dict[str, str] = {}
    for option in OPTIONS:
        values = (env.get(prefix + option.upper()) for prefix in prefixes)
        if value := next(filter(None, values), None):
            found[option] = value
    return {**_supabase(env, found), **found}


def _supabase(env: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the Supabase project, if no other endpoint is set."""
    url = env.get("SUPABASE_URL", "").rstrip("/")
    if not url or "endpoint" in found or env.get("AWS_ENDPOINT_URL"):
        return {}
    options = {"endpoint": url + _SUPABASE_ENDPOINT, "region": _SUPABASE_REGION}
    anon, service = env.get("SUPABASE_ANON_KEY"), env.get("SUPABASE_SERVICE_ROLE_KEY")
    if anon and service and "access_key_id" not in found:
        project = (urlsplit(url).hostname or "").partition(".")[0]
        options |= {"access_key_id": project, "secret_access_key": anon, "session_token": service}
    return options


def _url(name: str, env: Mapping[str, str]) -> str:
    if own := env.get(f"{name.upper()}_STORAGE_URL"):
        return own
    settings = load_settings(env=env)
    if settings.storage_url:
        return f"{settings.storage_url.rstrip('/')}/{name}"
    if bucket := env.get("S3_BUCKET"):
        return f"s3://{bucket}"
    return (settings.data_dir.absolute() / name).as_uri()


class S3BlobStore:
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
            own["virtual_hosted_style_request"] = False  # S3-compatible services support path-style requests
        self._bucket = S3Store(
            bucket,
            prefix=unquote(prefix).strip("/") or None,
            client_options={"allow_http": address.startswith("http://")},
            **own,
        )

    async def put(self, key: str, file: Path) -> None:
        """Upload a file, in parts if it is large. The object becomes visible only when it is complete."""
        with _translate_errors(key):
            await self._bucket.put_async(key, file)

    async def read(self, key: str, start: int, size: int) -> AsyncIterator[bytes]:
        if not size:
            return
        with _translate_errors(key):
            try:
                answer = await self._bucket.get_async(key, options={"range": (start, start + size)})
            except FileNotFoundError:
                raise ArtifactNotFound("the content of the artifact no longer exists in storage") from None
            async for piece in answer.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(piece)

    async def delete(self, key: str) -> None:
        with _translate_errors(key):
            await self._bucket.delete_async(key)


@contextmanager
def _translate_errors(key: str) -> Iterator[None]:
    """Translate the bucket's errors to Posthouse errors."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - an optional dependency

    try:
        yield
    except (BaseError, OSError) as error:
        raise StorageUnavailable(f"the bucket rejected {key}: {str(error)[:300]}") from error


class Digest(NamedTuple):
    size: int
    sha256: bytes


class BlobStore(Protocol):
    """A blob store. A key is written once and never changed."""

    async def put(self, key: str, file: Path) -> None:
        """Store the bytes of a file. The store may move the file."""
        ...

    def read(self, key: str, start: int, size: int) -> AsyncIterator[bytes]: ...
    async def delete(self, key: str) -> None: ...


def open_store(settings: Settings) -> BlobStore:
    """Return the store that the settings name."""
    if not settings.storage_url:
        return FileBlobStore(settings.data_dir / "artifacts")
    parts = urlsplit(settings.storage_url)
    match parts.scheme, parts.netloc, parts.path:
        case "file", "", path if path:
            return FileBlobStore(Path(unquote(path)))
        case "s3", bucket, prefix if bucket:
            return S3BlobStore(bucket, prefix)
    raise ConfigurationError(
        f"storage_url must be file:///folder or s3://bucket/prefix, not {settings.storage_url!r}"
    )


def new_blob_key(job_id: UUID) -> str:
    return f"{job_id}/{uuid4().hex}"


async def store_copy(settings: Settings, store: BlobStore, key: str, path: Path) -> Digest:
    """Store a copy of a file. Raises ArtifactTooLarge."""
    copy = await asyncio.to_thread(_copy_to, path, settings.data_dir / "uploads")
    try:
        digest = await asyncio.to_thread(file_digest, copy)
        reject_too_large(digest.size, settings.max_artifact_bytes)
        await store.put(key, copy)
    finally:
        await asyncio.to_thread(copy.unlink, missing_ok=True)
    return digest


def _copy_to(path: Path, scratch: Path) -> Path:
    private_folder(scratch)
    copy = scratch / uuid4().hex
    shutil.copyfile(path, copy)
    return copy


def reject_too_large(size: int, limit: int) -> None:
    if size > limit:
        raise ArtifactTooLarge(
            f"the artifact has {size:,} bytes, the limit is {limit:,} (max_artifact_bytes)"
        )


def file_digest(file: Path) -> Digest:
    sha256, size = hashlib.sha256(), 0
    with file.open("rb") as content:
        while piece := content.read(CHUNK_BYTES):
            sha256.update(piece)
            size += len(piece)
    return Digest(size, sha256.digest())
