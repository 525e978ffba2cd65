"""Tesseract, the OCR engine for scripts that the bundled model does not know. Installed by the operator."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby

from vision.lines import Box, Line

PROGRAM = "tesseract"
SPARSE = "11"
"""Page segmentation mode: text anywhere, in no order, as captions and signs are."""
_ONE_THREAD = {"OMP_THREAD_LIMIT": "1"}  # one process per core
_LINE = ("block_num", "par_num", "line_num")


class TesseractFailed(Exception):
    """Tesseract did not read the image."""


@cache
def installed_languages() -> frozenset[str]:
    """Return the languages of the installed Tesseract; none if it is missing."""
    if shutil.which(PROGRAM) is None:
        return frozenset()
    listed = _run("--list-langs").decode(errors="replace").splitlines()
    return frozenset(line.strip() for line in listed if " " not in line.strip()) - {"", "osd"}


def read_lines(picture: bytes, languages: Sequence[str]) -> list[Line]:
    """Return the lines of text in an image, from top to bottom."""
    table = _run("stdin", "stdout", "-l", "+".join(languages), "--psm", SPARSE, "tsv", picture=picture)
    rows = csv.DictReader(table.decode(errors="replace").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    words = [row for row in rows if row["level"] == "5" and row["text"].strip()]
    lines = [_line(list(group)) for _, group in groupby(words, lambda row: [row[name] for name in _LINE])]
    return sorted(lines, key=lambda line: (line.box.y, line.box.x))


def _line(words: Sequence[dict[str, str]]) -> Line:
    """Return the line of these words. Its confidence is their mean."""
    left, top = (min(int(word[side]) for word in words) for side in ("left", "top"))
    right = max(int(word["left"]) + int(word["width"]) for word in words)
    bottom = max(int(word["top"]) + int(word["height"]) for word in words)
    confidence = sum(float(word["conf"]) for word in words) / len(words) / 100
    text = " ".join(word["text"].strip() for word in words)
    return Line(text, round(min(1.0, max(0.0, confidence)), 4), Box(left, top, right - left, bottom - top))


def packages_for(languages: Iterable[str]) -> str:
    """Return the Debian packages that the languages need."""
    named = (f"tesseract-ocr-{language.replace('_', '-')}" for language in sorted(languages))
    return " ".join(["tesseract-ocr", *named])


def _run(*arguments: str, picture: bytes | None = None) -> bytes:
    done = subprocess.run(  # noqa: S603 - our own command, no shell
        [PROGRAM, *arguments], input=picture, capture_output=True, check=False, env=os.environ | _ONE_THREAD
    )
    if done.returncode:
        raise TesseractFailed(f"tesseract failed with exit code {done.returncode}")
    return done.stdout
