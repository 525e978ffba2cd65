"""Text recognition (OCR) in images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

LANGUAGES = frozenset({
    "eng", "deu", "fra", "spa", "ita", "por", "nld", "dan", "swe", "nor", "fin", "pol", "ces", "hun", "tur",
    "ron", "chi_sim", "chi_tra", "jpn",
})  # fmt: skip
"""Languages that the bundled model supports. It has no Cyrillic and no Korean."""
_LETTERS = {
    "deu": "äöüß", "fra": "àâçèéêëîïôœùû", "spa": "ñ¿¡áíóú", "por": "ãõ", "pol": "ąćęłńśźż", "ces": "ěščřžů",
    "hun": "őű", "tur": "ğışİ", "dan": "æø", "nor": "æø", "swe": "å", "fin": "å", "ron": "ăâîșț",
}  # fmt: skip


class UnknownLanguage(Exception):
    """The OCR model does not support the language."""


class Box(NamedTuple):
    x: int
    y: int
    width: int
    height: int


class Line(NamedTuple):
    text: str
    confidence: float
    box: Box


def refuse_unknown(languages: Sequence[str]) -> None:
    unknown = sorted(set(languages) - LANGUAGES)
    if unknown or not languages:
        named = ", ".join(unknown) or "(none)"
        raise UnknownLanguage(f"unsupported language: {named}; supported: {', '.join(sorted(LANGUAGES))}")


def read(picture: bytes, min_confidence: float) -> list[Line]:
    """Return the lines of text in an image, from top to bottom."""
    found = _engine()(picture)
    if found.txts is None:
        return []
    lines = [
        Line(text.strip(), round(float(score), 4), _box(corners))
        for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True)
    ]
    return [line for line in lines if line.text and line.confidence >= min_confidence]


def _box(corners: Any) -> Box:
    """Return the bounding rectangle of the four corners."""
    left, top = (int(value) for value in corners.min(axis=0))
    right, bottom = (int(value) for value in corners.max(axis=0))
    return Box(left, top, right - left, bottom - top)


def language_of(text: str, languages: Sequence[str]) -> str:
    """Return the first requested language with specific letters in the text, else the first one."""
    letters = set(text.lower())
    own = (language for language in languages if letters & set(_LETTERS.get(language, "")))
    return next(own, languages[0])


@cache
def _engine() -> Any:
    """Return the OCR engine.

    Measured on 38 frames of 720p: without the classifier for upside-down lines and with a detector at 640
    pixels, all were read in a third of the time that the defaults took for 36.
    """
    from rapidocr import RapidOCR  # noqa: PLC0415 - slow import, needed by few jobs

    return RapidOCR(
        params={
            "Global.use_cls": False,
            "Global.text_score": 0.0,  # min_confidence decides
            "Global.log_level": "error",
            "Det.limit_type": "max",
            "Det.limit_side_len": 640,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # one process per core
        }
    )
