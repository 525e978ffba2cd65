"""Names that are safe to be made paths of, wherever they come from."""

from __future__ import annotations

from posthouse.errors import InvalidArtifact

NAME_LIMIT = 200


def checked_artifact_name(name: str) -> str:
    """A relative path with nothing odd in it: ``hls/720p/index.m3u8``."""
    if not 0 < len(name) <= NAME_LIMIT:
        raise InvalidArtifact(f"the name of an artifact has 1 to {NAME_LIMIT} characters")
    if not is_safe_path(name):
        raise InvalidArtifact(f"{name!r} cannot be the name of an artifact: it is a path like a/b.txt")
    return name


def is_safe_path(name: str) -> bool:
    """Whether it stays inside the folder that it is joined to, on every system."""
    if "\\" in name or ":" in name or not name.isprintable():
        return False
    return all(part not in {"", ".", ".."} for part in name.split("/"))
