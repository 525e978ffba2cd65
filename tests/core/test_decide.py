"""What follows from each way in which an attempt can end."""

import random
from dataclasses import dataclass

import pytest

from posthouse import Cancel, Fail, Retry, Snooze
from posthouse.core.outcome import Crashed, Policy, Reported, TimedOut, decide
from posthouse.core.states import TRANSITIONS, Event, Status
from posthouse.errors import InvalidPayload


@dataclass
class Attempted:
    attempt: int = 1
    max_attempts: int = 3
    snoozes: int = 0
    crashes: int = 0
    age: float = 0.0


class OrderLost(Exception):
    pass


def verdict(ending, *, fail_on=(), retry=Retry("1m", "5m"), **attempt):  # noqa: B008 - frozen
    return decide(Attempted(**attempt), ending, Policy(retry, fail_on), random.Random(1))


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def test_an_error_is_retried_after_the_delay_of_its_attempt():
    first, second = verdict(ValueError("no"), attempt=1), verdict(ValueError("no"), attempt=2)
    assert (first.event, first.outcome, first.delay) == (Event.RETRY, "failed", 60)
    assert (second.event, second.outcome, second.delay) == (Event.RETRY, "failed", 300)


def test_an_error_in_the_last_attempt_exhausts_the_job():
    last = verdict(ValueError("no"), attempt=3)
    assert (last.event, last.outcome, last.delay) == (Event.EXHAUST, "failed", None)


def test_an_attempt_past_the_last_exhausts_too():
    assert verdict(ValueError(), attempt=4, max_attempts=3).event is Event.EXHAUST


def test_a_timeout_is_retried_and_recorded_as_one():
    first, last = verdict(TimedOut("slow")), verdict(TimedOut("slow"), attempt=3)
    assert (first.event, first.outcome) == (Event.RETRY, "timeout")
    assert (last.event, last.outcome) == (Event.EXHAUST, "timeout")
    assert first.error["type"] == "TimedOut"


def test_fail_is_never_retried_and_tells_its_cause():
    ending = Fail()
    ending.__cause__ = OrderLost("gone")
    failed = verdict(ending)
    assert (failed.event, failed.outcome, failed.delay) == (Event.FAIL, "failed", None)
    assert failed.error["type"].endswith("OrderLost")
    assert failed.error["message"] == "gone"


def test_fail_without_a_cause_tells_its_own_message():
    assert verdict(Fail("no such order")).error["message"] == "no such order"


def test_errors_named_in_fail_on_are_not_retried_and_their_subclasses_neither():
    assert verdict(KeyError("k"), fail_on=(LookupError,)).event is Event.FAIL
    assert verdict(ValueError("k"), fail_on=(LookupError,)).event is Event.RETRY


def test_cancel_ends_the_job_as_canceled_with_its_reason():
    canceled = verdict(Cancel("not wanted any more"))
    assert (canceled.event, canceled.outcome) == (Event.CANCEL, "canceled")
    assert canceled.error == {"type": "Canceled", "message": "not wanted any more"}


def test_snooze_runs_again_later_even_in_the_last_attempt():
    snoozed = verdict(Snooze("2m"), attempt=3)
    assert (snoozed.event, snoozed.outcome, snoozed.delay) == (Event.SNOOZE, "snoozed", 120)
    assert snoozed.error is None


@pytest.mark.parametrize(("snoozes", "event"), [(0, Event.SNOOZE), (1, Event.SNOOZE), (2, Event.EXHAUST)])
def test_snoozes_have_a_limit(snoozes, event):
    assert verdict(Snooze("1s", limit=2), snoozes=snoozes).event is event


@pytest.mark.parametrize(("age", "event"), [(0, Event.SNOOZE), (50, Event.SNOOZE), (51, Event.EXHAUST)])
def test_snoozes_have_a_deadline_that_counts_the_delay(age, event):
    decided = verdict(Snooze("10s", deadline="1m"), age=age)
    assert decided.event is event


def test_a_snooze_past_its_limit_says_so():
    error = verdict(Snooze("1s", limit=2), snoozes=2).error
    assert error["type"] == "SnoozeLimit"
    assert "limit is 2" in error["message"]


def test_an_error_carries_type_message_and_traceback():
    error = verdict(raised(OrderLost("order 7"))).error
    assert error["type"].endswith("OrderLost")
    assert error["message"] == "order 7"
    assert "raise error" in error["traceback"]


def test_names_of_builtin_and_own_errors_are_short():
    assert verdict(ValueError("x")).error["type"] == "ValueError"
    assert verdict(InvalidPayload("x")).error["type"] == "InvalidPayload"


def test_long_messages_and_tracebacks_are_cut():
    error = verdict(raised(ValueError("x" * 100_000))).error
    assert len(error["message"]) <= 4_000
    assert len(error["traceback"]) <= 16_000


def test_an_error_that_cannot_be_shown_is_still_recorded():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("speechless")

    decided = verdict(raised(Mute()))
    assert decided.event is Event.RETRY
    assert "Mute" in decided.error["type"]


@pytest.mark.parametrize("ending", [ValueError(), TimedOut(), Fail(), Cancel(), Snooze(1)])
def test_every_verdict_is_a_legal_move_out_of_running(ending):
    legal = {move.event for move in TRANSITIONS if move.source is Status.RUNNING}
    assert verdict(ending).event in legal


def test_a_crash_is_run_again_at_once_until_it_was_too_often():
    ending = Crashed("its process died", exit_code=-11, signal="SIGSEGV", traceback=None)
    first, third = verdict(ending), verdict(ending, attempt=1, crashes=2)
    assert (first.event, first.outcome, first.delay) == (Event.RESCUE, "crashed", 0)
    assert first.error == {
        "type": "Crashed",
        "message": "its process died",
        "exit_code": -11,
        "signal": "SIGSEGV",
    }
    assert (third.event, third.outcome, third.error["type"]) == (Event.EXHAUST, "crashed", "Poison")


def test_a_crash_in_the_last_attempt_exhausts_the_job():
    last = verdict(Crashed("its process died"), attempt=3)
    assert (last.event, last.error["type"]) == (Event.EXHAUST, "Crashed")


def test_an_error_of_another_process_is_stored_as_it_was_described_there():
    error = {"type": "shop.OrderLost", "message": "7", "traceback": "…"}
    assert verdict(Reported(error)).error == error
    failed = Fail()
    failed.__cause__ = Reported(error)
    assert (verdict(failed).event, verdict(failed).error) == (Event.FAIL, error)
