"""JWTs of an external identity provider. The settings choose the signature algorithm, never the token."""

from __future__ import annotations

from typing import Any

import jwt

from posthouse.identity.claims import Claims
from posthouse.identity.jwks import KeySet
from posthouse.identity.principal import Principal
from posthouse.settings import Settings

LEEWAY_SECONDS = 10
_REQUIRED = ["exp", "sub"]


class Tokens:
    def __init__(self, settings: Settings, keys: KeySet | None = None) -> None:
        self._settings = settings
        self._keys = keys or (KeySet(settings.jwks_url) if settings.jwks_url else None)
        self._claims = Claims(settings)

    @property
    def are_taken(self) -> bool:
        return bool(self._settings.jwt_secret) or self._keys is not None

    async def principal(self, text: str) -> Principal | None:
        """Return the principal of a token, or None if the token is invalid."""
        try:
            key, algorithm = await self._key(text)
            claims = self._read(text, key, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):  # PyJWT passes some on of its parsers
            return None
        return self._claims.principal(claims)

    async def _key(self, text: str) -> tuple[Any, str]:
        if self._settings.jwt_secret:
            return self._settings.jwt_secret, "HS256"
        key_id = jwt.get_unverified_header(text).get("kid")
        found = await self._keys.key(key_id) if self._keys and isinstance(key_id, str) else None
        if found is None:
            raise jwt.InvalidKeyError("this key is not used for signatures")
        return found.key, found.algorithm_name

    def _read(self, text: str, key: Any, algorithm: str) -> dict[str, Any]:
        settings = self._settings
        required = [*_REQUIRED, *(["aud"] if settings.jwt_audience else [])]
        claims: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=[algorithm],
            audience=settings.jwt_audience or None,
            issuer=settings.jwt_issuer or None,
            leeway=LEEWAY_SECONDS,
            options={"require": required, "verify_aud": bool(settings.jwt_audience)},
        )
        return claims
