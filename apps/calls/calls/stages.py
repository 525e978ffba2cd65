"""What the stages of a call share: options of their jobs, errors, and access to the call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from calls.audio import NoAudio
from calls.db import sql
from calls.recognizers import Recognizer, SigningUnsupported
from calls.speechkit import OperationFailed, RateLimited, RequestRejected
from calls.storage import DENIED, NotStored
from calls.whisper import LanguageUnsupported, ModelMismatch, ModelUnavailable
from posthouse import Job, Retry


class CallNotFound(Exception):
    """The call does not exist in this organisation."""


class WrongFile(Exception):
    """The payload names a file of another call."""


PERMANENT_ERRORS = (
    CallNotFound,
    LanguageUnsupported,
    ModelMismatch,
    ModelUnavailable,
    NoAudio,
    NotStored,
    OperationFailed,
    RequestRejected,
    SigningUnsupported,
    WrongFile,
    *DENIED,
)
"""Errors that a retry cannot fix."""
JOB_OPTIONS: dict[str, Any] = {
    "retry": Retry.exponential("30s", factor=2, cap="10m", jitter=0),
    "fail_on": PERMANENT_ERRORS,
    "timeout": "1h",
    "remote": False,
    "max_attempts": 5,
}


class Call(NamedTuple):
    duration: float | None


def load_call(job: Job, call_id: UUID, expected_paths: dict[str, str]) -> Call:
    """Return the call. Payloads are not trusted: paths must be those of the call."""
    for path, expected in expected_paths.items():
        if path != expected:
            raise WrongFile(f"invalid path {path!r}: expected {expected!r}")
    with job.transaction() as db:
        row = db.execute(sql("call_get"), {"call": call_id, "org": job.tenant}).fetchone()
    if row is None:
        raise CallNotFound(f"call {call_id} does not exist")
    return Call(*row)


def stage_options(kind: Any, call_id: UUID) -> Any:
    """Return the job options of a stage: one active job of each kind per call."""
    return {"dedupe_key": f"{kind.kind}:{call_id}", "subject": str(call_id)}


def again_payload(transcribe_again: bool) -> dict[str, bool]:
    """Return what the payload of the next stage has in addition if the transcript is to be replaced."""
    return {"transcribe_again": True} if transcribe_again else {}


@contextmanager
def snooze_when_rate_limited(recognizer: Recognizer) -> Iterator[None]:
    """Snooze without spending an attempt if the recognizer is busy."""
    try:
        yield
    except RateLimited as error:
        raise recognizer.policy.snooze(error.seconds) from None


def progress_callback(job: Job, seconds: float) -> Any:
    """Return a callback that reports the seconds that are done as progress."""
    return lambda done: job.progress(min(100.0, 100 * done / max(seconds, 0.1)))
