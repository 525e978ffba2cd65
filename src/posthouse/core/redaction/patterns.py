"""Patterns of secrets in text.

Each pattern has cues: plain words without which the pattern cannot match. Most texts contain no cue, and the
search for cues takes a hundredth of the time of the patterns. Each pattern runs in time proportional to the
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

MASK = "[redacted]"

_MAX_NUMBER_DIGITS = 20
_MIN_CHARS = 18
"""Minimum length of a single word that a pattern can match: ``sk_live_`` and ten letters.

Most keys are a single word.
"""
_NAME_BEFORE = re.compile(r"[\w.-]{1,64}\Z")
_BARE = r"[^\s\"',;&<>(){}\[\]]"
_REST = re.compile(f"{_BARE}*")
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?"
_NOTHING = {"", "null", "None", "true", "false", "True", "False"}


class _Pattern(NamedTuple):
    cues: tuple[str, ...]
    found: re.Pattern[str]
    replace: str | Callable[[re.Match[str]], str]

    def apply(self, text: str) -> str:
        return self.found.sub(self.replace, text)


def mask_text(text: str) -> str:
    """Replace everything that looks like a secret."""
    if len(text) < _MIN_CHARS and (text.isalnum() or text.isidentifier()):
        return text
    lower = text.lower()
    for pattern in _PATTERNS:
        if any(cue in lower for cue in pattern.cues):
            text = pattern.apply(text)
    return text


class _Named(NamedTuple):
    """A named value: ``password=x``, ``"token": "x"``. Even if it is not a secret, it may contain one."""

    cues: tuple[str, ...]
    found: re.Pattern[str]

    def apply(self, text: str) -> str:
        pieces: list[str] = []
        done = 0
        match = self.found.search(text)
        while match is not None:
            value = match["value"]
            end = match.start("value")
            if _is_secret_here(match):
                quote = value[0] if value[0] in "\"'" else ""
                pieces += text[done:end], quote, MASK, quote
                done = end = match.end() if quote else _REST.match(text, match.end()).end()  # type: ignore[union-attr]
            match = self.found.search(text, end)
        return "".join([*pieces, text[done:]])


def _is_secret_here(match: re.Match[str]) -> bool:
    before = _NAME_BEFORE.search(match.string, max(0, match.start() - 64), match.start())
    name = (before.group() if before else "") + match["name"]
    inner = match["value"].strip("\"'")
    if inner in _NOTHING or MASK in inner:
        return False
    number = int(inner) if inner.isdecimal() and len(inner) < _MAX_NUMBER_DIGITS else inner
    return is_secret(name, number) and not _is_prose(match, inner)


def _is_prose(match: re.Match[str], value: str) -> bool:
    """Return whether the text describes the value, as in ``password: must be longer``."""
    is_word = value.isalpha() and (value.islower() or value.istitle())
    if "=" in match["between"] or not is_word:
        return False
    return re.match(r" \w", match.string[match.end() : match.end() + 2]) is not None


def _mask_userinfo(match: re.Match[str]) -> str:
    return f"{match['scheme']}{MASK}@"


def _mask_if_random(match: re.Match[str]) -> str:
    """Mask the word after "bearer" or "key=" unless it is a natural word."""
    value = match["value"]
    if value.isalpha() and (value.islower() or value.istitle()):
        return match.group()
    return f"{match['before']}{MASK}"


_NAMES = (
    r"passw(?:or)?d|passphrase|passcode|pwd|pass|secret|token|api[_\- ]?key|access[_-]?key|private[_-]?key"
    r"|secret[_-]?key|signing[_-]?key|encryption[_-]?key|session[_-]?key|credential|creds|connection[_-]?string"
    r"|jwt|cvv|cvc|otp"
)

_PATTERNS = (
    _Pattern(
        ("private key",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        MASK,
    ),
    # Only the end of a block, for text that was truncated at the start.
    _Pattern(
        ("private key",),
        re.compile(r"\A[A-Za-z0-9+/=\s]*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"),
        MASK,
    ),
    _Pattern(
        ("authorization", "cookie"),
        re.compile(
            r"(?P<before>\b(?:proxy-)?(?:authorization|set-cookie|cookie)[\"']?\s{0,3}[:=]\s{0,3})"
            r"(?P<value>\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\r\n\"']+)",
            re.IGNORECASE,
        ),
        rf"\g<before>{MASK}",
    ),
    _Pattern(
        ("bearer", "basic"),
        re.compile(r"(?P<before>\b(?:bearer|basic)\s{1,3})(?P<value>[A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE),
        _mask_if_random,
    ),
    _Pattern(("eyj",), re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?"), MASK),
    _Pattern(("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    _Pattern(
        ("gh", "glpat-", "xox", "sk-", "sk_", "rk_", "aiza", "npm_", "pypi-", "whsec_", "hf_", "sg.", "sl."),
        re.compile(
            r"\b(?:gh[opusr]_[A-Za-z0-9]{30,}|github_pat_\w{20,}|glpat-[\w-]{20,}|xox[a-z]-[\w-]{10,}"
            r"|sk-[\w-]{20,}|[sr]k_(?:live|test)_\w{10,}|AIza[\w-]{30,}|npm_\w{30,}|pypi-[\w-]{30,}"
            r"|whsec_[\w+/=-]{16,}|hf_\w{30,}|SG\.[\w-]{16,}\.[\w-]{16,}|sl\.[\w-]{30,})"
        ),
        MASK,
    ),
    _Pattern(
        ("://",),
        re.compile(
            r"(?P<scheme>://)(?:[^\s/:@\"'<>]{0,256}:[^\s/\"'<>]{1,1024}|[^\s/:@\"'<>]{16,1024})@",
        ),
        _mask_userinfo,
    ),
    _Pattern(
        ("key=", "sig=", "signature=", "code="),
        re.compile(
            r"(?P<before>\b(?:key|sig|signature|x-amz-signature|x-goog-signature|code)=)"
            r"(?P<value>[A-Za-z0-9+/_%=-]{20,})",
            re.IGNORECASE,
        ),
        _mask_if_random,
    ),
    # Command line option: --password hunter
    _Pattern(
        ("--",),
        re.compile(
            rf"(?P<before>(?<!-)--(?!-)[\w-]{{0,64}}?(?:{_NAMES})[\w-]{{0,32}}\s)(?P<value>{_QUOTED}|{_BARE}+)",
            re.IGNORECASE,
        ),
        rf"\g<before>{MASK}",
    ),
    _Named(
        ("pass", "pwd", "secret", "token", "key", "cred", "string", "jwt", "cvv", "cvc", "otp"),
        re.compile(
            rf"(?P<name>(?:{_NAMES})[\w.-]{{0,32}})"
            r"(?P<between>\\?[\"']?\]?\s{0,3}[:=]>?\s{0,3}[\[(]?\\?)"
            rf"(?P<value>{_QUOTED}|{_BARE}{{1,2048}})",
            re.IGNORECASE,
        ),
    ),
)


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NOT_IN_WORDS = re.compile(r"[^A-Za-z\d]+")
_CUES = re.compile(
    "auth|bearer|cookie|cred|cvc|cvv|jwt|otp|pass|pwd|secret|token|key|pin|connectionstring", re.IGNORECASE
)
_MAX_NAME_CHARS = 200

_WHOLE = frozenset({
    "authorization", "bearer", "cookie", "cookies", "creds", "credential", "credentials", "cvc", "cvv", "jwt",
    "otp", "passcode", "passphrase", "passwd", "password", "passwords", "pwd", "secret", "secrets", "token",
    "tokens", "totp",
})  # fmt: skip
_AT_THE_END = frozenset({"auth", "pass", "pin"})
_ENDS_OF_A_WORD = ("secret", "secrets", "token", "tokens", "cookie", "cookies")
_ANYWHERE = (
    "password", "passwd", "passphrase", "apikey", "accesskey", "secretkey", "privatekey", "signingkey",
    "encryptionkey", "sessionkey", "credential", "authorization", "connectionstring",
)  # fmt: skip
_ABOUT_IT = frozenset({
    "at", "budget", "count", "enabled", "expiration", "expires", "expiry", "field", "in", "index", "len",
    "length", "limit", "limits", "name", "names", "policy", "ref", "required", "size", "total", "ttl", "type",
    "types", "usage", "used",
})  # fmt: skip
"""Last words of names that describe a secret but do not contain one: ``token_type``, ``passwordLength``."""


def is_secret(name: str, value: Any) -> bool:
    """Return whether a value under this name must be masked. Booleans are not secrets."""
    if value is None or value == "" or isinstance(value, bool):
        return False
    if isinstance(value, int | float) and _counts_tokens(name):
        return False
    return is_secret_name(name)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    end = name[-_MAX_NAME_CHARS:]
    if not _CUES.search(end if end.isalnum() else _NOT_IN_WORDS.sub("", end)):
        return False  # skips nine of ten names, in a fifth of the time
    words = [word.lower() for word in _WORDS.findall(name[-_MAX_NAME_CHARS:])]
    if not words or (words[-1] in _ABOUT_IT and len(words) > 1):
        return False
    return (
        not _WHOLE.isdisjoint(words)
        or words[-1] in _AT_THE_END
        or any(word.endswith(_ENDS_OF_A_WORD) for word in words)
        or any(part in "".join(words) for part in _ANYWHERE)
    )


def _counts_tokens(name: str) -> bool:
    """Return whether the name is a number of tokens, as in ``max_tokens: 500``."""
    return name.lower().endswith("tokens")
