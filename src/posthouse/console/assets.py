"""The static files of the console, read once. Their URL contains a hash that changes with any of them."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from posthouse.core.glossary import TERMS

TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
_MINIFIED_PREFIXES = ("js/", "css/")
_COMMENTS = re.compile(rb"^\s*(?://.*|/\*(?:[^*]|\*(?!/))*\*/\s*)$", re.MULTILINE)
_INDENTS = re.compile(rb"\n\s+")
_IMPORTS = re.compile(rb'^(import|export) \{ (.*) \} from "', re.MULTILINE)
_CSS_SPACES = re.compile(rb"\s*([{};])\s*|([:,])\s+")


class Asset(NamedTuple):
    content: bytes
    zipped: bytes
    media_type: str


class Assets:
    def __init__(self, files_by_path: dict[str, bytes]) -> None:
        self._files = {path: _asset(path, content) for path, content in files_by_path.items()}
        digest = hashlib.sha256()
        for path in sorted(files_by_path):
            digest.update(path.encode() + b"\0" + files_by_path[path])
        self.version = digest.hexdigest()[:12]

    def find(self, path: str) -> Asset | None:
        return self._files.get(path)

    def paths(self, ending: str) -> list[str]:
        return sorted(path for path in self._files if path.endswith(ending))


@cache
def assets() -> Assets:
    contents = read_files(files("posthouse.console") / "static")
    minified = {path: minify(path, content) for path, content in contents.items()}
    return Assets(minified | {"js/glossary.js": _glossary()})


def _glossary() -> bytes:
    """Generate the module of the tooltips: the first sentence of each term."""
    terms = {
        name.lower(): meaning.partition(". ")[0].removesuffix(".") + "." for name, meaning in TERMS.items()
    }
    return f"export const TERMS = {json.dumps(terms, ensure_ascii=False)}\n".encode()


def read_files(folder: Traversable, prefix: str = "") -> dict[str, bytes]:
    """Return the contents of all files below a folder by their path in it."""
    contents: dict[str, bytes] = {}
    for item in folder.iterdir():
        path = f"{prefix}{item.name}"
        contents |= read_files(item, f"{path}/") if item.is_dir() else {path: item.read_bytes()}
    return contents


def minify(path: str, content: bytes) -> bytes:
    """Remove indentation, comments on separate lines, and spaces in imports and around CSS punctuation.

    In templates, white space around a line break has no meaning.
    """
    if not path.startswith(_MINIFIED_PREFIXES):
        return content
    content = _INDENTS.sub(b"\n", _COMMENTS.sub(b"", content)).strip()
    if path.endswith(".css"):
        return _CSS_SPACES.sub(rb"\1\2", content).replace(b";}", b"}")
    return _IMPORTS.sub(lambda match: b'%s{%s}from"' % (match[1], match[2].replace(b", ", b",")), content)


def _asset(path: str, content: bytes) -> Asset:
    ending = path[path.rfind(".") :]
    return Asset(content, gzip.compress(content, mtime=0), TYPES.get(ending, "application/octet-stream"))
