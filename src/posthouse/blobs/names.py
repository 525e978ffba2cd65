"""Validation of artifact names, which become file paths."""

from __future__ import annotations

from posthouse.errors import InvalidArtifact

NAME_LIMIT = 200


def checked_artifact_name(name: str) -> str:
    """Validate an artifact name: a relative path such as ``hls/720p/index.m3u8``."""
    if not 0 < len(name) <= NAME_LIMIT:
        raise InvalidArtifact(f"an artifact name must have 1 to {NAME_LIMIT} characters")
    if not is_safe_path(name):
        raise InvalidArtifact(f"{name!r} is not a valid artifact name; use a relative path like a/b.txt")
    return name


def is_safe_path(name: str) -> bool:
    """Whether the path stays inside its folder on every operating system."""
    if "\\" in name or ":" in name or not name.isprintable():
        return False
    return all(part not in {"", ".", ".."} for part in name.split("/"))
