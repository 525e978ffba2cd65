"""Tokens of an external identity provider: signature, signing keys and claims."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jwt

from posthouse.errors import ConfigurationError
from posthouse.identity.roles import Principal, Role
from posthouse.settings import Settings

LEEWAY_SECONDS = 10
_REQUIRED = ["exp", "sub"]


class JwtVerifier:
    def __init__(self, settings: Settings, keys: JwksCache | None = None) -> None:
        self._settings = settings
        self._keys = keys or (JwksCache(settings.jwks_url) if settings.jwks_url else None)
        self._claims = ClaimMapper(settings)

    @property
    def is_enabled(self) -> bool:
        return bool(self._settings.jwt_secret) or self._keys is not None

    async def principal(self, text: str) -> Principal | None:
        """Return the principal of a token, or None if the token is invalid."""
        try:
            key, algorithm = await self._key(text)
            claims = self._read(text, key, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):  # PyJWT leaks errors of its parsers
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


MAX_NAME_LENGTH = 512
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NOT_FOR_TOKENS = {Role.WORKER}
"""Roles that tokens cannot have.

Tokens are for people. A worker's permissions are not those of a tenant, and its key is revoked separately.
"""


class ClaimMapper:
    def __init__(self, settings: Settings) -> None:
        self._tenant = settings.jwt_tenant_claim
        self._role = settings.jwt_role_claim
        self._roles = parse_role_names(settings.jwt_roles)

    def principal(self, claims: Mapping[str, Any]) -> Principal | None:
        """Return the principal, or None if the claims do not identify one.

        They must have a known role, and a tenant unless the role is super-admin.
        """
        role = self._roles.get(str(_get_path(claims, self._role)))
        tenant = _get_path(claims, self._tenant)
        subject = claims.get("sub")
        if role is None or not _is_name(subject):
            return None
        if role is Role.SUPER_ADMIN:
            tenant = None
        elif not _is_name(tenant):
            return None
        try:
            expires_at = datetime.fromtimestamp(float(claims["exp"]), UTC)
        except (OverflowError, ValueError, OSError):  # beyond the year 9999
            return None
        return Principal(name=f"jwt:{subject}", role=role, tenant=tenant, expires_at=expires_at)


def parse_role_names(text: str) -> dict[str, Role]:
    """Parse ``owner=tenant-admin,member=tenant-viewer`` in addition to the names of the roles.

    A super-admin sees all tenants, so no claim maps to that role unless it is listed here.
    """
    names = {role.value: role for role in Role if role not in {*_NOT_FOR_TOKENS, Role.SUPER_ADMIN}}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, role = (part.strip() for part in item.partition("="))
        if role not in set(Role) - _NOT_FOR_TOKENS:
            choice = ", ".join(sorted(set(Role) - _NOT_FOR_TOKENS))
            raise ConfigurationError(
                f"jwt_roles: {item!r} does not name a role; write name=role with {choice}"
            )
        names[name] = Role(role)
    return names


def _is_name(value: Any) -> bool:
    """Return whether a claim is a text that Postgres can store: no NUL, no lone surrogates."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_LENGTH and not _UNSTORABLE.search(value)


def _get_path(claims: Mapping[str, Any], path: str) -> Any:
    value: Any = claims
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


_log = logging.getLogger("posthouse.identity")

ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}
"""Algorithm by key type, as published. The token must not choose it."""
KEEP_SECONDS = 3600.0
MIN_REFRESH_SECONDS = 30.0
"""Minimum time between two fetches, so that forged key ids cannot flood the JWKS endpoint."""
FETCH_SECONDS = 5.0
MAX_BYTES = 1_000_000


class JwksCache:
    def __init__(self, url: str, *, floor: float = MIN_REFRESH_SECONDS) -> None:
        if not url.startswith(("https://", "http://")):
            raise ConfigurationError(f"invalid jwks_url {url!r}: expected an https:// URL")
        self._url = url
        self._floor = floor
        self._keys: dict[str, jwt.PyJWK] = {}
        self._refreshed_at = float("-inf")
        self._lock = asyncio.Lock()

    async def key(self, key_id: str) -> jwt.PyJWK | None:
        """Return the key. The keys are fetched again if this one is unknown or the cached ones are old."""
        if key_id not in self._keys or self._age() > KEEP_SECONDS:
            await self._refresh()
        return self._keys.get(key_id)

    def _age(self) -> float:
        return time.monotonic() - self._refreshed_at

    async def _refresh(self) -> None:
        async with self._lock:
            if self._age() < self._floor:
                return
            self._refreshed_at = time.monotonic()
            try:
                self._keys = _parse_keys(await asyncio.to_thread(self._fetch))
            except (OSError, ValueError, TypeError, RecursionError, jwt.PyJWTError) as error:
                # Cached keys stay valid while the endpoint is unreachable.
                _log.warning("JWKS fetch failed url=%s: %s", self._url, error)

    def _fetch(self) -> object:
        with urllib.request.urlopen(self._url, timeout=FETCH_SECONDS) as answer:  # noqa: S310 - the scheme is checked above
            return json.loads(answer.read(MAX_BYTES))


def _parse_keys(document: object) -> dict[str, jwt.PyJWK]:
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
