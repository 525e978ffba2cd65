"""The public keys of whoever signs tokens, fetched from where they publish them."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.request

import jwt

from posthouse.errors import ConfigurationError

_log = logging.getLogger("posthouse.identity")

ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}
"""By the kind of key, as its publisher says; a token has no say in it."""
KEEP_SECONDS = 3600.0
FLOOR_SECONDS = 30.0
"""Between two looks, at the least: tokens with made-up key ids must not make us a nuisance to others."""
FETCH_SECONDS = 5.0
MOST_BYTES = 1_000_000


class KeySet:
    def __init__(self, url: str, *, floor: float = FLOOR_SECONDS) -> None:
        if not url.startswith(("https://", "http://")):
            raise ConfigurationError(f"jwks_url is a URL with https://, not {url!r}")
        self._url = url
        self._floor = floor
        self._keys: dict[str, jwt.PyJWK] = {}
        self._looked_at = float("-inf")
        self._lock = asyncio.Lock()

    async def key(self, key_id: str) -> jwt.PyJWK | None:
        """The key, looked up again if it is unknown or what we know is old."""
        if key_id not in self._keys or self._age() > KEEP_SECONDS:
            await self._look()
        return self._keys.get(key_id)

    def _age(self) -> float:
        return time.monotonic() - self._looked_at

    async def _look(self) -> None:
        async with self._lock:
            if self._age() < self._floor:
                return
            self._looked_at = time.monotonic()
            try:
                self._keys = _usable(await asyncio.to_thread(self._fetch))
            except (OSError, ValueError, jwt.PyJWTError) as error:
                # Those we know go on to count: the publisher may be away for a while.
                _log.warning("the keys at %s cannot be read: %s", self._url, error)

    def _fetch(self) -> object:
        with urllib.request.urlopen(self._url, timeout=FETCH_SECONDS) as answer:  # noqa: S310 - checked above
            return json.loads(answer.read(MOST_BYTES))


def _usable(document: object) -> dict[str, jwt.PyJWK]:
    """Those for signatures, of the kinds that we take. A symmetric key among public ones is a mistake."""
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("no list of keys")  # noqa: TRY004 - of the document, not of our code
    return {
        item["kid"]: jwt.PyJWK(item, ALGORITHMS[item["kty"]])
        for item in document["keys"]
        if isinstance(item, dict)
        and isinstance(item.get("kid"), str)
        and item.get("use", "sig") == "sig"
        and item.get("alg", ALGORITHMS.get(item.get("kty", "")))
        == ALGORITHMS.get(item.get("kty", ""), "none")
        and item.get("crv", "P-256") == "P-256"
    }
