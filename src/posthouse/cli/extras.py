"""Optional dependencies: checked before a command starts, and named together if some are missing."""

from __future__ import annotations

import re

from posthouse.errors import ConfigurationError

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
