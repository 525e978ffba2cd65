"""The filter language, in which one line selects jobs.

    status:failed kind:ocr,transcode -queue:slow subject:"my video" payload.video_id:42 created:<2h 0192f3a4

``tokens`` splits a line, ``reading`` parses it to a Filter and ``writing`` formats a Filter; ``completing``
finds what can be completed at a position; ``wanted`` decides how the jobs are found.
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
