"""Redaction leaves the fixed words of error messages alone."""

import ast
from pathlib import Path

import pytest

import posthouse
from posthouse.core.redaction import mask_text

SOURCE = Path(posthouse.__file__).parent
NOT_REDACTED = {"NotAuthenticated", "Forbidden", "TooManyRequests"}
"""As in posthouse.server.http.problems."""


def fixed_texts(node):
    """The literal texts of an expression, with a harmless word where a value stands."""
    for part in ast.walk(node):
        if isinstance(part, ast.JoinedStr):
            yield "".join(
                str(piece.value) if isinstance(piece, ast.Constant) else "value" for piece in part.values
            )
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def raised():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") not in NOT_REDACTED:
                yield from ((path.relative_to(SOURCE), node.lineno, text) for text in fixed_texts(call))


def test_the_words_of_every_error_survive():
    texts = list(raised())
    assert len(texts) > 300
    assert [found for found in texts if mask_text(found[2]) != found[2]] == []


@pytest.mark.parametrize("text", ["Authorization: Bearer abc123xyz789", "api key: 8f3kd93kd"])
def test_values_do_not(text):
    assert "[redacted]" in mask_text(text)
