"""Public keys that sign tokens, fetched from a JWKS URL."""

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
"""Algorithm by key type, as published; the token does not choose it."""
KEEP_SECONDS = 3600.0
FLOOR_SECONDS = 30.0
"""Minimum time between two fetches, so that forged key ids cannot flood the JWKS endpoint."""
FETCH_SECONDS = 5.0
MOST_BYTES = 1_000_000


class KeySet:
    def __init__(self, url: str, *, floor: float = FLOOR_SECONDS) -> None:
        if not url.startswith(("https://", "http://")):
            raise ConfigurationError(f"invalid jwks_url {url!r}: expected an https:// URL")
        self._url = url
        self._floor = floor
        self._keys: dict[str, jwt.PyJWK] = {}
        self._looked_at = float("-inf")
        self._lock = asyncio.Lock()

    async def key(self, key_id: str) -> jwt.PyJWK | None:
        """Return the key, fetched again if it is unknown or the cached keys are old."""
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
            except (OSError, ValueError, TypeError, RecursionError, jwt.PyJWTError) as error:
                # Cached keys stay valid while the endpoint is unreachable.
                _log.warning("JWKS fetch failed url=%s: %s", self._url, error)

    def _fetch(self) -> object:
        with urllib.request.urlopen(self._url, timeout=FETCH_SECONDS) as answer:  # noqa: S310 - the scheme is checked above
            return json.loads(answer.read(MOST_BYTES))


def _usable(document: object) -> dict[str, jwt.PyJWK]:
    """Return the signature keys of supported types. A symmetric key in a public document is ignored."""
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("the document contains no list of keys")  # noqa: TRY004 - invalid document, not a programming error
    return {
        item["kid"]: jwt.PyJWK(item, ALGORITHMS[item["kty"]])
        for item in document["keys"]
        if isinstance(item, dict)
        and isinstance(item.get("kid"), str)
        and isinstance(item.get("kty"), str)
        and item.get("use", "sig") == "sig"
        and item.get("alg", ALGORITHMS.get(item.get("kty", "")))
        == ALGORITHMS.get(item.get("kty", ""), "none")
        and item.get("crv", "P-256") == "P-256"
    }
