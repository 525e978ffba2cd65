"""The filter language: one line that says which jobs are meant.

    status:failed kind:ocr,transcode -queue:slow subject:"my video" payload.video_id:42 created:<2h 0192f3a4

``tokens`` cuts a line, ``reading`` makes a Filter of it and ``writing`` a line again; ``completing`` knows
what may be written at a place; ``wanted`` says how such jobs are found.
"""

from posthouse.core.filters.completing import Asked, asked_at
from posthouse.core.filters.fields import FIELDS, Field
from posthouse.core.filters.reading import read_filter
from posthouse.core.filters.tokens import written
from posthouse.core.filters.values import Filter, Term, Text, Times
from posthouse.core.filters.wanted import UNSUCCESSFUL, Wanted, wanted
from posthouse.core.filters.writing import line_of

__all__ = [
    "FIELDS",
    "UNSUCCESSFUL",
    "Asked",
    "Field",
    "Filter",
    "Term",
    "Text",
    "Times",
    "Wanted",
    "asked_at",
    "line_of",
    "read_filter",
    "wanted",
    "written",
]
