"""Text recognition (OCR) in images: chooses the engine by language."""

from __future__ import annotations

from collections.abc import Sequence

from vision import bundled, tesseract
from vision.lines import Line

TESSERACT = frozenset({
    "afr", "ara", "bel", "ben", "bul", "cat", "ell", "est", "fas", "heb", "hin", "hrv", "hye", "ind", "isl",
    "kat", "kor", "lav", "lit", "mkd", "msa", "rus", "slk", "slv", "sqi", "srp", "swa", "tam", "tel", "tha",
    "ukr", "urd", "vie",
})  # fmt: skip
"""Languages that need Tesseract."""
_LETTERS = {
    "deu": "äöüß", "fra": "àâçèéêëîïôœùû", "spa": "ñ¿¡áíóú", "por": "ãõ", "pol": "ąćęłńśźż", "ces": "ěščřžů",
    "hun": "őű", "tur": "ğışİ", "dan": "æø", "nor": "æø", "swe": "å", "fin": "å", "ron": "ăâîșț",
}  # fmt: skip
_CYRILLIC, _ARABIC, _HAN = (0x0430, 0x045F), (0x0621, 0x06D3), (0x4E00, 0x9FFF)
_RANGES = {
    "rus": _CYRILLIC, "ukr": _CYRILLIC, "bul": _CYRILLIC, "bel": _CYRILLIC, "srp": _CYRILLIC,
    "mkd": _CYRILLIC, "ara": _ARABIC, "fas": _ARABIC, "urd": _ARABIC, "chi_sim": _HAN, "chi_tra": _HAN,
    "jpn": (0x3041, 0x30FF), "ell": (0x03AC, 0x03CE), "kor": (0xAC00, 0xD7A3), "heb": (0x05D0, 0x05EA),
    "hin": (0x0904, 0x097F), "tha": (0x0E01, 0x0E5B), "kat": (0x10D0, 0x10FF), "hye": (0x0561, 0x0587),
}  # fmt: skip
"""Code points of lower-case letters of scripts."""


class UnknownLanguage(Exception):
    """No OCR engine here supports the language."""


def readable_languages() -> frozenset[str]:
    """Return the languages that an installed engine reads."""
    return bundled.languages() | (TESSERACT & tesseract.installed_languages())


def check_languages(languages: Sequence[str]) -> None:
    """Raise UnknownLanguage unless an installed engine reads all the languages."""
    supported = bundled.languages() | TESSERACT
    unknown = sorted(set(languages) - supported)
    if unknown or not languages:
        named = ", ".join(unknown) or "(none)"
        raise UnknownLanguage(f"unsupported language: {named}; supported: {', '.join(sorted(supported))}")
    missing = set() if _is_bundled(languages) else set(languages) - tesseract.installed_languages()
    if missing:
        raise UnknownLanguage(
            f"language {', '.join(sorted(missing))} needs Tesseract on the server and on all workers; "
            f"install the Debian packages {tesseract.packages_for(missing)}"
        )


def read_text(picture: bytes, languages: Sequence[str], min_confidence: float) -> list[Line]:
    """Return the lines of text in an image, from top to bottom."""
    if _is_bundled(languages):
        lines = bundled.read_lines(picture)
    else:
        lines = tesseract.read_lines(picture, languages)
    return [line for line in lines if line.text and line.confidence >= min_confidence]


def _is_bundled(languages: Sequence[str]) -> bool:
    return bundled.languages().issuperset(languages)


def language_of(text: str, languages: Sequence[str]) -> str:
    """Return the first requested language with specific letters in the text, else the first one."""
    letters = set(text.lower())
    return next((language for language in languages if _has_letters_of(language, letters)), languages[0])


def _has_letters_of(language: str, letters: set[str]) -> bool:
    first, last = _RANGES.get(language, (1, 0))
    own = _LETTERS.get(language, "")
    return any(letter in own or first <= ord(letter) <= last for letter in letters)
