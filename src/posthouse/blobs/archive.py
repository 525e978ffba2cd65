"""Pack folders as tar.gz and extract them safely.

Archives come from untrusted sources, so the reader accepts only files and folders: no links, no devices, no
names that lead out of the folder, and no file twice. The number of files, their size, and the compression
ratio are limited. Only headers and chunks are held in memory.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from posthouse.blobs.store import is_safe_path
from posthouse.errors import UnsafeArchive

BLOCK = 512
CHUNK_BYTES = 1 << 18
MAX_HEADER_BYTES = 1 << 16
NAME_LIMIT = 4096
_FILES, _FOLDER, _PAX, _PAX_FOR_ALL, _LONG_NAME = b"0\0", b"5", b"x", b"g", b"L"


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits for extraction.

    ``ratio``: maximum ratio of content to archive size, beyond the first megabytes.
    """

    files: int = 100_000
    bytes: int = 50 * 2**30
    ratio: float = 200.0
    unchecked_bytes: int = 64 * 2**20


class Member(NamedTuple):
    name: str
    size: int
    is_folder: bool
    executable: bool


def pack(folder: Path, target: Path) -> None:
    """Write the files and folders below ``folder`` to ``target``. The same content gives the same bytes."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise UnsafeArchive(f"{path.relative_to(folder)} is neither a file nor a folder")
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=_without_owner)


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    return info


def extract(archive: Path, folder: Path, limits: ArchiveLimits = ArchiveLimits()) -> int:  # noqa: B008 - frozen
    """Extract a tar.gz archive into a new or empty folder and return the number of files.

    Raises UnsafeArchive. Files that were written before the error stay, so the caller must delete the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UnsafeArchive(f"{folder} is not empty")
    count = 0
    with archive.open("rb") as raw:
        for member, content in members(raw, limits):
            _write(member, content, folder)
            count += not member.is_folder
    return count


def members(raw: BinaryIO, limits: ArchiveLimits) -> Iterator[tuple[Member, Iterator[bytes]]]:
    """Yield the members of an archive. Each member's content is read or skipped before the next one."""
    source = _TarStream(raw, limits)
    name: str | None = None
    size: int | None = None
    count = 0
    while (header := source.header()) is not None:
        kind, length = header[156:157], _number(header[124:136])
        if kind in {_PAX, _PAX_FOR_ALL, _LONG_NAME}:
            text = source.read_header_data(length)
            if kind == _PAX:
                name, size = _pax(text, name, size)
            elif kind == _LONG_NAME:
                name = _decoded(text.rstrip(b"\0"))
            continue
        length = length if size is None else size
        member = _member(header, name or _plain_name(header), kind, length)
        name = size = None
        count += 1
        if count > limits.files:
            raise UnsafeArchive(f"the archive contains more than {limits.files:,} files")
        content = source.pieces(member.size)
        yield member, content
        for _ in content:
            pass
        source.skip(-member.size % BLOCK)


class _TarStream:
    """The tar stream inside the gzip file, with limits on size and compression ratio."""

    def __init__(self, raw: BinaryIO, limits: ArchiveLimits) -> None:
        self._raw = raw
        self._tar = gzip.GzipFile(fileobj=raw)
        self._limits = limits
        self._out = 0

    def read(self, size: int) -> bytes:
        try:
            data = self._tar.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise UnsafeArchive(f"not a valid tar.gz archive, or it is truncated: {error}") from None
        self._out += len(data)
        if self._out > self._limits.bytes:
            raise UnsafeArchive(f"the archive unpacks to more than {self._limits.bytes:,} bytes")
        if self._out > self._limits.unchecked_bytes + self._limits.ratio * self._raw.tell():
            raise UnsafeArchive(f"the archive unpacks to more than {self._limits.ratio:g} times its size")
        return data

    def read_exactly(self, size: int) -> bytes:
        data = self.read(size)
        if len(data) != size:
            raise UnsafeArchive("the archive is truncated")
        return data

    def header(self) -> bytes | None:
        """Return the next header, or None at the end."""
        block = self.read(BLOCK)
        if not block.strip(b"\0"):
            return None
        if len(block) != BLOCK:
            raise UnsafeArchive("the archive is truncated")
        stated = _number(block[148:156])
        if stated != sum(block) - sum(block[148:156]) + 8 * 32:
            raise UnsafeArchive("the archive has a header with a wrong checksum")
        return block

    def read_header_data(self, size: int) -> bytes:
        if not 0 <= size <= MAX_HEADER_BYTES:
            raise UnsafeArchive("the archive has a header that is too large")
        text = self.read_exactly(size)
        self.skip(-size % BLOCK)
        return text

    def pieces(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self.read_exactly(min(CHUNK_BYTES, size))
            size -= len(piece)
            yield piece

    def skip(self, size: int) -> None:
        self.read_exactly(size)


def _member(header: bytes, name: str, kind: bytes, size: int) -> Member:
    is_folder = kind == _FOLDER or (kind in _FILES and name.endswith("/"))
    name = name.removeprefix("./").rstrip("/")
    if kind != _FOLDER and (kind not in _FILES or not kind):
        raise UnsafeArchive(f"{name!r} is neither a file nor a folder")
    if not 0 <= size < 2**62:
        raise UnsafeArchive(f"{name!r} has no size")
    if len(name) > NAME_LIMIT or (name not in {"", "."} and not is_safe_path(name)):
        raise UnsafeArchive(f"{name[:200]!r} would be written outside the target folder")
    if not is_folder and name in {"", "."}:
        raise UnsafeArchive("the archive contains a file without a name")
    return Member(name, size, is_folder, bool(_number(header[100:108]) & 0o100))


def _plain_name(header: bytes) -> str:
    name = _decoded(header[:100].split(b"\0")[0])
    prefix = _decoded(header[345:500].split(b"\0")[0]) if header[257:262] == b"ustar" else ""
    return f"{prefix}/{name}" if prefix else name


def _pax(text: bytes, name: str | None, size: int | None) -> tuple[str | None, int | None]:
    """Parse pax records ("length key=value") and return the fields that are used."""
    while text:
        digits, _, _ = text.partition(b" ")
        if not digits.isdigit() or len(digits) > 6:  # noqa: PLR2004 - longer than any valid header
            raise UnsafeArchive("the archive has an invalid header")
        length = int(digits)
        record, text = text[len(digits) + 1 : length], text[length:]
        key, equals, value = record.rstrip(b"\n").partition(b"=")
        if not length or not equals:
            raise UnsafeArchive("the archive has an invalid header")
        if key == b"path":
            name = _decoded(value)
        elif key == b"size":
            size = _decimal(value)
        elif key in {b"linkpath", b"GNU.sparse.major", b"GNU.sparse.map", b"GNU.sparse.name"}:
            raise UnsafeArchive("the archive contains links or sparse files")
    return name, size


def _number(field: bytes) -> int:
    if field[:1] in {b"\x80", b"\xff"}:  # a value too large for octal digits
        return int.from_bytes(field[1:], "big", signed=field[:1] == b"\xff")
    text = field.split(b"\0")[0].strip()
    if not text:
        return 0
    if not all(48 <= digit < 56 for digit in text):  # noqa: PLR2004 - octal digits
        raise UnsafeArchive("the archive has an invalid number in a header")
    return int(text, 8)


def _decimal(value: bytes) -> int:
    if not value.isdigit() or len(value) > 19:  # noqa: PLR2004 - the maximum of 64 bits
        raise UnsafeArchive("the archive has an invalid number in a header")
    return int(value)


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise UnsafeArchive("the archive contains a file name that is not UTF-8") from None


class _Content(Protocol):
    def __iter__(self) -> Iterator[bytes]: ...


def _write(member: Member, content: _Content, folder: Path) -> None:
    target = folder / member.name
    try:
        if member.is_folder:
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o755 if member.executable else 0o644
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), mode)
    except (FileExistsError, NotADirectoryError):
        raise UnsafeArchive(f"{member.name!r} occurs twice in the archive") from None
    except OSError as error:
        raise UnsafeArchive(f"{member.name[:200]!r} cannot be written: {error.strerror}") from None
    with os.fdopen(made, "wb") as file:
        for piece in content:
            file.write(piece)
