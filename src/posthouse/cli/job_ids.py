"""Job ids as people type them: whole, or a unique part of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

from posthouse.cli.guarding import WrongUsage

if TYPE_CHECKING:
    from posthouse.insights import MatchedJob

HELP = "Job id, or a unique prefix or suffix of it (at least 4 characters)."
_PART = re.compile(r"[0-9a-f]{4,31}")
_LISTED = 10


def job_reference(text: str) -> UUID | str:
    """Return the id, or the digits of a part of one for `find_job`."""
    digits = text.replace("-", "").lower()
    if _PART.fullmatch(digits):
        return digits
    try:
        return UUID(text)
    except ValueError:
        raise WrongUsage(
            f"{text!r} is not a job id; pass a full id like 01890a5d-ac96-774b-bcce-b302099a8057, or its "
            "first or last characters (at least 4); list jobs with `posthouse jobs list`"
        ) from None


async def find_job(db: Any, reference: UUID | str) -> UUID:
    """Return the id of the one job that the reference matches. A full id is not looked up."""
    from posthouse import insights
    from posthouse.errors import JobNotFound

    if isinstance(reference, UUID):
        return reference
    found = await insights.jobs_by_part_of_id(db, reference, limit=_LISTED + 1)
    if not found:
        raise JobNotFound(
            f"no job id starts or ends with {reference!r}; a suffix is searched among the newest "
            f"{insights.SEARCHED_IDS:,} jobs of each table, so pass the full id of an older job"
        )
    if len(found) > 1:
        raise WrongUsage(_ambiguous(reference, found))
    return found[0].id


def _ambiguous(reference: str, found: list[MatchedJob]) -> str:
    more = "" if len(found) <= _LISTED else f"\n  and more than {_LISTED} in total"
    jobs = "".join(f"\n  {job.id}  {job.kind}  {job.status}" for job in found[:_LISTED])
    return f"the job id {reference!r} is ambiguous; pass more characters of one of these:{jobs}{more}"
