"""Tokens of another login: what is taken, and what never is."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from posthouse.errors import ConfigurationError
from posthouse.identity import Role
from posthouse.identity.tokens import JwksCache, JwtVerifier, parse_role_names
from posthouse.settings import Settings
from support.databases import define
from support.identity import problem
from support.server import ServerThread

SECRET = "a-secret-of-the-login-that-is-not-guessable"
ACME = {"tenant_id": "acme", "role": "tenant-admin"}


def claims(**changes):
    now = int(time.time())
    whole = {
        "sub": "user-1", "aud": "authenticated", "iss": "https://login.example", "iat": now, "exp": now + 600,
        "app_metadata": ACME, **changes,
    }  # fmt: skip
    return {name: value for name, value in whole.items() if value is not None}


def signed(key=SECRET, algorithm="HS256", headers=None, **changes):
    return jwt.encode(claims(**changes), key, algorithm, headers)


def forged(header, body, signature=b""):
    """A token as an attacker writes it, by hand: no library would."""
    parts = (json.dumps(header).encode(), json.dumps(body).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def by_secret(**changes):
    return JwtVerifier(Settings(jwt_secret=SECRET, **changes))


async def test_a_token_identifies_its_principal():
    principal = await by_secret().principal(signed())
    assert (principal.name, principal.role, principal.tenant) == ("jwt:user-1", Role.TENANT_ADMIN, "acme")
    assert principal.expires_at is not None


NOW = int(time.time())
WRONG = {
    "expired": {"exp": NOW - 60},
    "without an end": {"exp": None},
    "not yet good": {"nbf": NOW + 86400},
    "from the future": {"iat": NOW + 86400},
    "for another audience": {"aud": "another"},
    "without an audience": {"aud": None},
    "without a subject": {"sub": None},
    "of another role": {"app_metadata": {**ACME, "role": "emperor"}},
    "without a role": {"app_metadata": {"tenant_id": "acme"}},
    "of a worker": {"app_metadata": {**ACME, "role": "worker"}},
    "of a super-admin by that name": {"app_metadata": {"role": "super-admin"}},
    "without a tenant": {"app_metadata": {"role": "tenant-admin"}},
    "of an empty tenant": {"app_metadata": {**ACME, "tenant_id": ""}},
    "of a list of tenants": {"app_metadata": {**ACME, "tenant_id": ["acme"]}},
    "with a tenant elsewhere": {"app_metadata": {"role": "tenant-admin"}, "tenant_id": "acme"},
    "that the user wrote": {"app_metadata": {}, "user_metadata": ACME},
    "without details": {"app_metadata": "acme"},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
async def test_a_token_is_refused_that_is(changes):
    assert await by_secret().principal(signed(**changes)) is None


async def test_an_issuer_counts_once_it_is_named():
    tokens = by_secret(jwt_issuer="https://login.example")
    assert await tokens.principal(signed()) is not None
    assert await tokens.principal(signed(iss="https://evil.example")) is None
    assert await tokens.principal(signed(iss=None)) is None


async def test_claims_and_roles_are_called_as_the_settings_say():
    tokens = by_secret(
        jwt_tenant_claim="org",
        jwt_role_claim="resource.role",
        jwt_roles="owner=tenant-admin, root = super-admin",
    )
    owner = await tokens.principal(signed(org="acme", resource={"role": "owner"}))
    assert (owner.role, owner.tenant) == (Role.TENANT_ADMIN, "acme")
    root = await tokens.principal(signed(org="acme", resource={"role": "root"}))
    assert (root.role, root.tenant) == (Role.SUPER_ADMIN, None)
    with pytest.raises(ConfigurationError, match="emperor"):
        parse_role_names("owner=emperor")
    with pytest.raises(ConfigurationError, match="worker"):
        parse_role_names("robot=worker")


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE"])
async def test_a_token_without_a_signature_is_refused(algorithm):
    assert await by_secret().principal(forged({"alg": algorithm, "typ": "JWT"}, claims())) is None


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
async def test_another_algorithm_is_refused_though_the_secret_is_right(algorithm):
    secret = SECRET * 2
    tokens = JwtVerifier(Settings(jwt_secret=secret))
    assert await tokens.principal(signed(secret)) is not None
    assert await tokens.principal(signed(secret, algorithm)) is None


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "\u00e9.\u00e9.\u00e9", "x" * 5000, signed()[:-2]])
async def test_what_is_no_token_is_refused(text):
    assert await by_secret().principal(text) is None


class Publisher:
    """Serves public keys, and counts how often it is asked."""

    def __init__(self):
        self.keys, self.asked = [], 0
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                publisher.asked += 1
                body = json.dumps({"keys": publisher.keys}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks.json"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, key_id, private, **more):
        kind = (
            jwt.algorithms.RSAAlgorithm
            if isinstance(private, rsa.RSAPrivateKey)
            else jwt.algorithms.ECAlgorithm
        )
        self.keys.append({**json.loads(kind.to_jwk(private.public_key())), "kid": key_id, **more})

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def publisher():
    publisher = Publisher()
    yield publisher
    publisher.close()


@pytest.fixture(scope="module")
def rsa_key():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def ec_key():
    return ec.generate_private_key(ec.SECP256R1())


def by_keys(publisher, **options):
    return JwtVerifier(Settings(jwks_url=publisher.url), JwksCache(publisher.url, **options))


async def test_tokens_are_checked_by_published_keys(publisher, rsa_key, ec_key):
    publisher.publish("r", rsa_key, use="sig", alg="RS256")
    publisher.publish("e", ec_key)
    tokens = by_keys(publisher)
    for token in (signed(rsa_key, "RS256", {"kid": "r"}), signed(ec_key, "ES256", {"kid": "e"})):
        assert (await tokens.principal(token)).tenant == "acme"
    assert publisher.asked == 1


async def test_a_key_is_not_used_as_another_kind_of_key(publisher, rsa_key, ec_key):
    """The public key must not be accepted as an HMAC secret, because it is public."""
    publisher.publish("r", rsa_key)
    publisher.publish("e", ec_key)
    tokens = by_keys(publisher)
    public = rsa_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = {"alg": "HS256", "typ": "JWT", "kid": "r"}
    unsigned = forged(header, claims()).rpartition(".")[0]
    signature = base64.urlsafe_b64encode(hmac.digest(public, unsigned.encode(), hashlib.sha256))
    assert await tokens.principal(f"{unsigned}.{signature.rstrip(b'=').decode()}") is None
    assert await tokens.principal(signed(rsa_key, "RS256", {"kid": "e"})) is None
    assert await tokens.principal(signed(rsa_key, "RS512", {"kid": "r"})) is None
    assert await tokens.principal(signed(rsa_key, "RS256")) is None
    assert await tokens.principal(forged({"alg": "none", "kid": "r"}, claims())) is None


async def test_keys_for_other_uses_and_of_other_kinds_are_left_out(publisher, rsa_key):
    secret = base64.urlsafe_b64encode(SECRET.encode()).rstrip(b"=").decode()
    publisher.keys.append({"kty": "oct", "kid": "o", "k": secret})
    publisher.publish("enc", rsa_key, use="enc")
    publisher.publish("other", rsa_key, alg="RS512")
    tokens = by_keys(publisher)
    assert await tokens.principal(signed(SECRET, "HS256", {"kid": "o"})) is None
    assert await tokens.principal(signed(rsa_key, "RS256", {"kid": "enc"})) is None
    assert await tokens.principal(signed(rsa_key, "RS256", {"kid": "other"})) is None


async def test_an_unknown_key_is_looked_for_but_not_all_the_time(publisher, rsa_key, ec_key):
    publisher.publish("old", rsa_key)
    slow, quick = by_keys(publisher), by_keys(publisher, floor=0.0)
    old, new = signed(rsa_key, "RS256", {"kid": "old"}), signed(ec_key, "ES256", {"kid": "new"})
    for tokens in (slow, quick):
        assert await tokens.principal(old) is not None
    publisher.publish("new", ec_key)
    asked = publisher.asked
    for number in range(20):
        assert await slow.principal(signed(ec_key, "ES256", {"kid": f"made up {number}"})) is None
    assert publisher.asked == asked
    assert await quick.principal(new) is not None


async def test_known_keys_count_while_the_publisher_is_away(publisher, rsa_key):
    publisher.publish("r", rsa_key)
    tokens = by_keys(publisher, floor=0.0)
    token = signed(rsa_key, "RS256", {"kid": "r"})
    assert await tokens.principal(token) is not None
    publisher.close()
    assert await tokens.principal(signed(rsa_key, "RS256", {"kid": "unknown"})) is None
    assert await tokens.principal(token) is not None


def test_settings_that_would_not_be_safe_are_refused():
    for wrong in (
        {"jwt_secret": "short"},
        {"jwt_secret": SECRET, "jwks_url": "https://a"},
        {"admin_secret": "x" * 31},
    ):
        with pytest.raises(ConfigurationError):
            Settings(**wrong)
    with pytest.raises(ConfigurationError):
        JwtVerifier(Settings(jwks_url="file:///etc/passwd"))


def test_over_http_a_token_and_the_admin_secret_are_credentials(database):
    settings = Settings(database_url=database, jwt_secret=SECRET, admin_secret="s" * 40)
    define(database, "sync")
    with ServerThread(settings) as api_server:
        made = api_server.client(signed()).post("/api/v1/jobs", json={"definition_key": "sync"}).json()
        assert made["tenant_id"] == "acme"
        other = api_server.client(signed(app_metadata={**ACME, "tenant_id": "other"}))
        assert problem(other.get(f"/api/v1/jobs/{made['id']}")) == (404, "job_not_found")
        assert api_server.client("s" * 40).get(f"/api/v1/jobs/{made['id']}").status_code == 200
        for wrong in ("s" * 39, "s" * 41, signed("x" * 40)):
            assert problem(api_server.client(wrong).get("/api/v1/jobs")) == (401, "not_authenticated")
