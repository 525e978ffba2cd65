"""Decide what follows from the outcome of an attempt that did not succeed, and report it."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
from collections.abc import Callable
from uuid import UUID

from posthouse.core.failure import fingerprint
from posthouse.core.outcome import Decision, Policy, decide, describe
from posthouse.core.retry import Retry
from posthouse.core.states import Event
from posthouse.errors import InvalidPayload, InvalidResult, LeaseLost
from posthouse.storage.leases import Settlement
from posthouse.worker.attempt import Attempt
from posthouse.worker.completer import Completer
from posthouse.worker.definitions import DefinitionWatcher
from posthouse.worker.handlers import JobDefinition
from posthouse.worker.job import Job

_log = logging.getLogger("posthouse.worker")

_LEVELS = {
    Event.FAIL: logging.ERROR,
    Event.EXHAUST: logging.ERROR,
    Event.RETRY: logging.WARNING,
    Event.RESCUE: logging.WARNING,
}


class Released(Exception):
    """The worker is stopping: the job is released without using up an attempt."""


class LeaseExpired(Released):
    """The lease could not be renewed.

    The handler is stopped. The job is released if its token shows that this worker still owns it, which is
    usual after an outage of Postgres; no crash is counted then.
    """


class PayloadMismatch(Exception):
    """The payload fits the definition that newer code announced, but not the handler of this worker."""


class OutcomeWriter:
    """The writer of all outcomes except plain success.

    ``address`` returns the URL of a job's page in the console.
    """

    def __init__(
        self,
        completer: Completer,
        definition_watcher: DefinitionWatcher,
        crash_limit: int,
        address: Callable[[UUID], str],
    ) -> None:
        self._completer = completer
        self._definition_watcher = definition_watcher
        self._crash_limit = crash_limit
        self._address = address
        self._rng = random.Random()  # noqa: S311 - jitter

    def write(self, attempt: Attempt, definition: JobDefinition, outcome: BaseException) -> None:
        """Report the outcome of an attempt whose lease this worker has dropped."""
        if isinstance(outcome, LeaseLost):
            _log.warning("lease lost, result discarded job=%s", attempt.id)
            return
        verdict = self._decide(attempt, definition, outcome)
        if verdict.error is not None:
            error = self._definition_watcher.mask_error(attempt, verdict.error)
            # computed from the masked error, so that it reveals no secrets
            error["fingerprint"] = fingerprint(error)
            verdict = dataclasses.replace(verdict, error=error)
        _log_decision(attempt, verdict, self._address(attempt.id), outcome)
        self._completer.settle(
            Settlement(
                attempt.hex_id,
                attempt.hex_token,
                verdict.event,
                verdict.outcome,
                verdict.delay,
                verdict.error,
                output_text(attempt),
            )
        )

    def _decide(self, attempt: Attempt, definition: JobDefinition, outcome: BaseException) -> Decision:
        match outcome:
            case Released():
                if isinstance(outcome, LeaseExpired):
                    _log.warning("lease renewal failed, job released job=%s", attempt.id)
                return Decision(Event.RELEASE, "released", 0.0)
            case PayloadMismatch():
                message = f"{outcome}; the newest definition accepts it: only newer code can run the job"
                error = {"type": "PayloadMismatch", "message": message}
                return Decision(Event.RELEASE, "released", 0.0, error)
            case InvalidResult():
                return Decision(Event.FAIL, "failed", error=describe(outcome))
            case InvalidPayload():
                error = {"type": "InvalidPayload", "message": str(outcome)}
                return Decision(Event.EXHAUST, "failed", error=error)
            case _:
                return decide(attempt, outcome, self._get_policy(attempt, definition), self._rng)

    def _get_policy(self, attempt: Attempt, definition: JobDefinition) -> Policy:
        policy = definition.policy
        if attempt.row.retry is not None:
            retry = Retry.from_json(attempt.row.retry)
        else:
            retry = self._definition_watcher.retry(attempt.row.kind) or policy.retry
        return Policy(retry, policy.fail_on, self._crash_limit)


def output_text(attempt: Attempt) -> str | None:
    return None if attempt.command_output is None else json.dumps(attempt.command_output)


def _log_decision(attempt: Attempt, verdict: Decision, address: str, outcome: BaseException) -> None:
    """Log an attempt that did not succeed; a final failure as an error with the exception."""
    level = _LEVELS.get(verdict.event, logging.INFO)
    if verdict.event is Event.RELEASE and verdict.error is not None:
        level = logging.WARNING
    if not _log.isEnabledFor(level):
        return
    error = f": {verdict.error['type']}: {verdict.error['message']}" if verdict.error else ""
    again = "" if verdict.delay is None else f"; next attempt in {verdict.delay:.3g} s"
    page = f" {address}" if address and verdict.error else ""
    text = "attempt %d of %d %s%s%s%s"
    values = (attempt.attempt, attempt.max_attempts, verdict.outcome, error, again, page)
    # Not logged through job.log, which also stores its lines: the stored attempt has the same text.
    Job(attempt).log.logger.log(
        level, text, *values, extra=attempt.log_context, exc_info=outcome if level == logging.ERROR else None
    )
