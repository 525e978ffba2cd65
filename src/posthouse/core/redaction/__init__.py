"""Keeps secrets out of what people and log files see.

Secrets are known by the name that they stand under, by how they look, and by marks: ``writeOnly``,
``x-secret`` or ``format: password`` in a schema, and the ``redact`` paths of a definition. What a payload
holds under such a name or mark is also masked wherever it turns up in a text of that job. Stored payloads are
never changed: a handler needs what it was given.
"""

from posthouse.core.redaction.logs import MASKING, guard, mask_here, mask_output, mask_with
from posthouse.core.redaction.names import is_secret, is_secret_name
from posthouse.core.redaction.patterns import MASK, mask_text
from posthouse.core.redaction.redactor import PLAIN, Redactor, redactor_for
from posthouse.core.redaction.secrets import Secrets

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

guard()  # whoever imports Posthouse has its loggers guarded
