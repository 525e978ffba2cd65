"""Archives that may come from anywhere."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.blobs import ArchiveLimits, extract, pack
from posthouse.errors import UnsafeArchive

TIGHT = ArchiveLimits(files=50, bytes=1_000_000, ratio=20, unchecked_bytes=100_000)


def archive(path, *members, form=tarfile.PAX_FORMAT):
    """A tar.gz of (name, content or None for folders, changes to the header)."""
    with tarfile.open(path, "w:gz", format=form) as tar:
        for name, content, changes in members:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            for field, value in changes.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content or b""))
    return path


def inside(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_comes_out_as_it_went_in(tmp_path):
    source = tmp_path / "source"
    long = "/".join(["long-name-" * 5] * 4)
    content = {"a.txt": b"a", "b/c.bin": bytes(range(256)) * 5000, f"{long}/ü.txt": b"", "run.sh": b"#!"}
    for name, data in content.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    (source / "run.sh").chmod(0o700)
    (source / "empty").mkdir()
    pack(source, tmp_path / "one.tar.gz")
    pack(source, tmp_path / "two.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    assert extract(tmp_path / "one.tar.gz", tmp_path / "out") == 4
    assert inside(tmp_path / "out") == content
    assert (tmp_path / "out" / "empty").is_dir()
    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_other_makers_are_read(tmp_path, form):
    name = "d/" * 40 + "file-with-quite-a-long-name.txt"
    made = archive(tmp_path / "x.tar.gz", ("./", None, {}), (f"./{name}", b"hello", {}), form=form)
    assert extract(made, tmp_path / "out") == 1
    assert inside(tmp_path / "out") == {name: b"hello"}


@pytest.mark.parametrize(
    "members",
    [
        [("../out.txt", b"x", {})],
        [("a/../../out.txt", b"x", {})],
        [("/etc/out.txt", b"x", {})],
        [("a\\..\\b", b"x", {})],
        [("C:out.txt", b"x", {})],
        [("a\nb", b"x", {})],
        [("", b"x", {})],
        [("link", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc"})],
        [("link", b"", {"type": tarfile.LNKTYPE, "linkname": "a"})],
        [("pipe", b"", {"type": tarfile.FIFOTYPE})],
        [("device", b"", {"type": tarfile.CHRTYPE})],
        [("disk", b"", {"type": tarfile.BLKTYPE})],
        [("sparse", b"", {"type": tarfile.GNUTYPE_SPARSE})],
        [("twice", b"1", {}), ("twice", b"2", {})],
        [("a", b"1", {}), ("a/b", b"2", {})],
        [(f"{number}", b"", {}) for number in range(51)],
        [("large", random.Random(1).randbytes(1_000_001), {})],
        [("bomb", bytes(900_000), {})],
        [("x" * 300, b"", {})],
        [("pax", b"x", {"pax_headers": {"path": "../up"}})],
        [("pax", b"x", {"pax_headers": {"GNU.sparse.major": "1"}})],
    ],
)  # fmt: skip
def test_what_could_do_harm_is_refused_and_nothing_is_written_outside(tmp_path, members):
    made = archive(tmp_path / "x.tar.gz", *members)
    with pytest.raises(UnsafeArchive):
        extract(made, tmp_path / "in" / "out", TIGHT)
    assert {path.name for path in tmp_path.iterdir()} == {"x.tar.gz", "in"}
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_a_header_that_claims_to_be_huge_is_not_believed(tmp_path):
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT))
    block[156:157] = b"x"
    block[124:136] = b"%011o\0" % 2**32
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(bytes(block) + bytes(5000)))
    with pytest.raises(UnsafeArchive, match="header that is too large"):
        extract(tmp_path / "x.tar.gz", tmp_path / "out")


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(UnsafeArchive, match="not empty"):
        extract(archive(tmp_path / "x.tar.gz", ("a", b"x", {})), tmp_path / "out")


def base():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in (("a/b", b"x" * 700), ("ü" * 60, b"y"), ("d/", b"")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


BASE = base()


@settings(max_examples=100, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, len(BASE) - 1), st.binary(min_size=1, max_size=9)), max_size=6),
    mended=st.booleans(), cut=st.integers(0, len(BASE)),
)  # fmt: skip
def test_noise_is_refused_or_stays_in_the_folder(tmp_path_factory, changes, mended, cut):
    data = bytearray(BASE)
    for position, noise in changes:
        data[position : position + len(noise)] = noise
    if mended:  # so that the noise gets past the check sums
        for start in range(0, len(data) - 511, 512):
            header = data[start : start + 512]
            header[148:156] = b" " * 8
            data[start + 148 : start + 156] = b"%06o\0 " % sum(header)
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "x.tar.gz").write_bytes(gzip.compress(bytes(data[: len(data) - cut // 4])))
    with suppress(UnsafeArchive):
        extract(folder / "x.tar.gz", folder / "in" / "out", TIGHT)
    assert {path.name for path in folder.iterdir()} <= {"x.tar.gz", "in"}
    assert [path.name for path in (folder / "in").iterdir()] == ["out"]


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=2000), packed=st.booleans())
def test_anything_else_is_no_archive(tmp_path_factory, data, packed):
    folder = tmp_path_factory.mktemp("noise")
    (folder / "x").write_bytes(gzip.compress(data) if packed else data)
    with suppress(UnsafeArchive):
        assert extract(folder / "x", folder / "out", TIGHT) == 0
