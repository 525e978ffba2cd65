"""What `posthouse up` and `posthouse init` check and print: missing packages, commands, the first screen."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from posthouse.cli.output import print_line
from posthouse.errors import ConfigurationError

NAME = "posthouse"


def own_command() -> str:
    """Return ``posthouse`` if the shell finds this installation by that name, else a path to it."""
    return _command(absolute=False)


def absolute_command() -> str:
    """Return the same for use in another folder: a path is absolute."""
    return _command(absolute=True)


def shell_path(path: Path, *, absolute: bool) -> str:
    """Return a path for a shell, relative to the current folder if it lies below it."""
    here = Path.cwd()
    shown = path.relative_to(here) if not absolute and path.is_relative_to(here) else path
    return shlex.quote(str(shown))


def _command(*, absolute: bool) -> str:
    interpreter = Path(sys.executable)
    script = interpreter.parent / NAME
    if not script.is_file():
        return f"{shell_path(interpreter, absolute=absolute)} -m {NAME}"
    found = shutil.which(NAME)
    if found is not None and Path(found).resolve() == script.resolve():
        return NAME
    return shell_path(script, absolute=absolute)


_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+).*\bextra == ['\"](?P<extra>[a-z0-9-]+)['\"]")


def require_extras(purpose: str, *extras: str) -> None:
    """Raise one error that names every missing package of these extras and the command to install them."""
    missing = missing_extras(*extras)
    if not missing:
        return
    named = ", ".join(name for packages in missing.values() for name in packages)
    raise ConfigurationError(
        f"{purpose} needs packages that are not installed: {named}; "
        f"install them with: pip install 'posthouse[{','.join(missing)}]'{_instead(missing)}"
    )


def missing_extras(*extras: str) -> dict[str, list[str]]:
    """Return the packages of these extras that are not installed, by extra."""
    return {extra: packages for extra in extras if (packages := _missing(extra))}


def _instead(missing: dict[str, list[str]]) -> str:
    return " (or set POSTHOUSE_DATABASE_URL to use your own Postgres)" if "embedded" in missing else ""


def _missing(extra: str) -> list[str]:
    from importlib.metadata import requires

    found = (_REQUIREMENT.match(text) for text in requires("posthouse") or ())
    return [match["name"] for match in found if match and match["extra"] == extra and not _has(match["name"])]


def _has(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


WIDTH = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What the first screen shows."""

    address: str
    admin_key: str | None
    """Set only on the first start."""
    console: str | None
    """A link that logs a browser in once; only for this machine."""
    apps: str | None
    """The same kind of link for the page of the applications; None without applications."""
    running: str
    tries: Sequence[tuple[str, str]]
    """Descriptions and their commands."""
    data: str

    def show(self) -> None:
        """Print one block on stdout. Programs read its first lines: the address and the admin key."""
        print_line(f"Posthouse is ready: {self.address}", style="bold green")
        if self.admin_key is not None:
            print_line(f"Admin key, shown only once: {self.admin_key}")
        print_line("")
        if self.console is not None:
            _row("Console", self.console)
            if self.apps is not None:
                _row("Apps", self.apps)
            _row("", "each link logs you in once and expires in 10 minutes", dim=True)
        _row("Running", self.running)
        width = max(len(purpose) for purpose, _ in self.tries) + 1
        for number, (purpose, command) in enumerate(self.tries):
            _row("" if number else "Try", f"{purpose + ':':<{width}}  {command}")
        _row("Data", self.data)
        _row("Stop", "Ctrl-C")
        sys.stdout.flush()


def _row(label: str, text: str, *, dim: bool = False) -> None:
    print_line(f"  {label:<{WIDTH}}", style="bold", end="")
    print_line(text, style="dim" if dim else "")
