"""What looks like a secret in a text."""

import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.core.redaction import MASK, Secrets, mask_text

CANARY = "cAnArY7Secret9"


@pytest.mark.parametrize(
    "text",
    [
        f"password={CANARY}",
        f"PASSWORD = '{CANARY}'",
        f'{{"password": "{CANARY}", "a": 1}}',
        f"{{'api_key': '{CANARY} with spaces'}}",
        f'{{\\"secret\\": \\"{CANARY}\\"}}',
        f"dropboxAccessToken: {CANARY}",
        f"run --password {CANARY} --verbose",
        f"run --api-key={CANARY}",
        f"GET /files?access_token={CANARY}&page=2",
        f"https://host/path?key={CANARY}0123456789",
        f"https://bucket/x?X-Amz-Signature={CANARY}0123456789",
        f"postgresql://shop:{CANARY}@db.example.com/shop",
        f"postgresql://shop:p@{CANARY}@db.example.com/shop",
        f"redis://:{CANARY}@cache/0",
        f"https://{CANARY}{CANARY}@github.com/x.git",
        f"Authorization: Bearer {CANARY}",
        f"authorization: Basic {CANARY}=",
        f"'Authorization': 'token {CANARY}'",
        f"sent Bearer {CANARY}",
        f"Cookie: session={CANARY}; theme=dark",
        f"Set-Cookie: session={CANARY}",
        f"eyJhbGciOiJIUzI1NiJ9.eyJ{CANARY}.c2ln",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}\nMIIB\n-----END PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}",
        f"{CANARY}\nMIIB\n-----END EC PRIVATE KEY-----\nand more",
        f"ghp_{CANARY}{CANARY}{CANARY}",
        f"sk_live_{CANARY}",
        f"xoxb-123-{CANARY}",
        f"password: {CANARY}",
        f"password=[{CANARY}]",
        f"pass password={CANARY}",
        f"token_type=x;token={CANARY}",
        f"token_type=token={CANARY}",
        f"password=a={CANARY}",
        f"secret={'x' * 5000}{CANARY}",
    ],
)
def test_a_secret_in_a_text_is_masked(text):
    masked = mask_text(text)
    assert CANARY not in masked
    assert MASK in masked


def test_an_aws_key_is_masked():
    assert mask_text("using AKIAIOSFODNN7EXAMPLE now") == f"using {MASK} now"


@pytest.mark.parametrize(
    "text",
    [
        "the token expired yesterday",
        "Unexpected token: a name was expected",
        "password: Field required",
        "secret: must not be empty",
        'KeyError: "token"',
        "max_tokens=500",
        "token=None",
        "bearer authentication failed",
        "https://example.com/a@b",
        "https://example.com:8080/x",
        "see https://docs.example.com/keys?key=short",
        'File "/srv/shop/passwords.py", line 3, in check_password',
        "it took 00:00:05 at 12:30",
    ],
)
def test_a_text_about_secrets_is_not_masked(text):
    assert mask_text(text) == text


def test_what_stands_around_a_secret_stays():
    assert mask_text("login password=hunter2, user=ada") == f"login password={MASK}, user=ada"


@given(st.text())
def test_masking_twice_changes_nothing_more(text):
    once = mask_text(text)
    assert mask_text(once) == once


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=6, max_size=80), st.text(), st.text())
def test_a_known_value_never_shows_in_any_text_that_quotes_it(value, before, after):
    masked = Secrets([value]).mask(before + value + after)
    assert value not in masked.replace(MASK, "\x00")


@pytest.mark.parametrize(
    "value", ['with "quotes" in it', "two\nlines of it", "tab\tand \\ slash", "päss wörd/+&"]
)
def test_a_known_value_is_found_as_json_python_and_urls_write_it(value):
    secrets = Secrets([value])
    for text in (json.dumps({"a": value}), repr({"a": value}), quote(value, safe=""), quote_plus(value)):
        masked = secrets.mask(f"got {text}!")
        assert MASK in masked
        assert quote(value, safe="") not in masked
        assert json.dumps(value)[1:-1] not in masked


def test_every_line_of_a_long_value_is_masked_where_it_stands_alone():
    secrets = Secrets(["first line of it\nsecond line of it"])
    assert secrets.mask("then: second line of it") == f"then: {MASK}"


def test_a_short_value_is_masked_as_a_word_only():
    secrets = Secrets(["1234"])
    assert secrets.mask("pin 1234, order 912345") == f"pin {MASK}, order 912345"


def test_a_text_that_was_cut_does_not_keep_half_a_secret():
    secrets = Secrets([CANARY])
    assert CANARY[4:] not in secrets.mask(f"{CANARY[4:]} and {CANARY[:8]}", cut=True)
    assert CANARY[:8] not in secrets.mask(f"{CANARY[4:]} and {CANARY[:8]}", cut=True)


@pytest.mark.parametrize(
    "piece",
    [
        "pass", "token ", "://", "eyJ", 'password="', "key=", "a", "-----BEGIN PRIVATE KEY-----", "A.",
        "bearer ", "token_type=", "--", "password=x=",
    ],
)  # fmt: skip
def test_a_long_hostile_text_is_masked_in_linear_time(piece):
    # In linear time this takes a moment; in quadratic time it would outlast the limit of any test.
    assert "hunter2" not in mask_text(piece * (400_000 // len(piece)) + "\npassword=hunter2")
