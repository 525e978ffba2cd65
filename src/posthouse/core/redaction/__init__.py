"""Mask secrets in everything that is shown to people or written to logs.

Secrets are recognized by field name, by pattern, and by marks: ``writeOnly``, ``x-secret`` or ``format:
password`` in a schema, and the ``redact`` paths of a definition. Payload values with such a name or mark are
also masked wherever they occur in texts of that job. Stored payloads are never changed, because the handler
needs them.
"""

from posthouse.core.redaction.logs import MASKING, guard, mask_here, mask_output, mask_with
from posthouse.core.redaction.patterns import MASK, is_secret, is_secret_name, mask_text
from posthouse.core.redaction.redactor import PLAIN, Redactor, Secrets, redactor_for

__all__ = [
    "MASK",
    "MASKING",
    "PLAIN",
    "Redactor",
    "Secrets",
    "guard",
    "is_secret",
    "is_secret_name",
    "mask_here",
    "mask_output",
    "mask_text",
    "mask_with",
    "redactor_for",
]

guard()  # install the masking filter on all Posthouse loggers
