"""The filter language, in which one line selects jobs.

    status:failed kind:ocr,transcode -queue:slow subject:"my video" payload.video_id:42 created:<2h 0192f3a4

``parse_filter`` parses a line to a Filter and ``format_filter`` formats a Filter; ``completion_at`` finds
what can be completed at a position; ``plan_search`` decides how the jobs are found.
"""

from posthouse.core.filters.parser import (
    CompletionTarget,
    completion_at,
    format_filter,
    parse_filter,
    written,
)
from posthouse.core.filters.query import UNSUCCESSFUL, JobQuery, plan_search
from posthouse.core.filters.values import FIELDS, Field, Filter, Term, Text, Times

__all__ = [
    "FIELDS",
    "UNSUCCESSFUL",
    "CompletionTarget",
    "Field",
    "Filter",
    "JobQuery",
    "Term",
    "Text",
    "Times",
    "completion_at",
    "format_filter",
    "parse_filter",
    "plan_search",
    "written",
]
