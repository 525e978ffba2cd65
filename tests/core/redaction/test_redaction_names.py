"""Which names promise a secret."""

import pytest

from posthouse.core.redaction import is_secret, is_secret_name


@pytest.mark.parametrize(
    "name",
    [
        "password", "PASSWORD", "Password", "user_password", "userPassword", "dbpassword", "passwordHash",
        "token", "accessToken", "dropboxAccessToken", "refresh-token", "x-auth-token", "accesstoken",
        "tokens",
        "secret", "clientSecret", "client_secret", "SECRET_KEY", "apiKey", "api_key", "API-KEY", "APIKey",
        "x-api-key", "apikey", "aws_access_key_id", "privateKey", "authorization", "Authorization",
        "proxy-authorization", "cookie", "Set-Cookie", "credentials", "googleCredentials", "passphrase",
        "pwd",
        "smtp_pass", "pin", "otp", "cvv", "jwt", "bearer", "basicAuth", "connection_string", "$token",
    ],
)  # fmt: skip
def test_a_name_that_promises_a_secret_is_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "user_id", "key", "dedupe_key", "author", "authority", "monkey", "passenger", "compass",
        "tokenizer",
        "secretary", "token_type", "tokenCount", "password_length", "secretName", "cookie_name", "keyboard",
        "passes", "pinned", "spinner", "session_id", "signature", "passage", "pass_count", "expires_at",
    ],
)  # fmt: skip
def test_a_similar_name_is_not_masked(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize("value", [None, True, False, ""])
def test_whether_there_is_a_secret_is_none(value):
    assert not is_secret("password", value)


def test_a_number_of_tokens_is_no_secret_but_a_list_of_them_is():
    assert not is_secret("max_tokens", 500)
    assert not is_secret("promptTokens", 12)
    assert is_secret("tokens", ["a", "b"])
    assert is_secret("pin", 1234)


def test_a_very_long_name_is_judged_by_its_end():
    assert is_secret_name("x" * 100_000 + "_password")
