"""When a failed job runs again."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse import Retry
from posthouse.core.retry import DEFAULT_MAX_ATTEMPTS, DEFAULT_RETRY
from posthouse.errors import ConfigurationError

RNG = random.Random(1)
attempts = st.integers(1, 100_000)
delays = st.floats(0, 1e6, allow_nan=False)


def test_a_ladder_waits_its_rungs_in_order_and_then_repeats_the_last():
    retry = Retry("1m", "5m", "15m")
    assert [retry.delay(n, RNG) for n in (1, 2, 3, 4, 50)] == [60, 300, 900, 900, 900]


def test_a_ladder_gives_one_attempt_more_than_it_has_rungs():
    assert Retry("1s").attempts == 2
    assert Retry("1s", "2s", "3s").attempts == 4


def test_exponential_doubles_up_to_its_cap():
    retry = Retry.exponential("30s", cap="10m", jitter=0)
    assert [retry.delay(n, RNG) for n in range(1, 8)] == [30, 60, 120, 240, 480, 600, 600]


def test_exponential_has_the_default_number_of_attempts():
    assert Retry.exponential().attempts == DEFAULT_MAX_ATTEMPTS == DEFAULT_RETRY.attempts


@given(attempt=attempts, base=delays, factor=st.floats(1, 1000), cap=delays, jitter=st.floats(0, 1))
def test_exponential_with_jitter_stays_within_its_share_of_the_plain_delay(
    attempt, base, factor, cap, jitter
):
    plain = Retry.exponential(base, factor=factor, cap=cap, jitter=0).delay(attempt, RNG)
    varied = Retry.exponential(base, factor=factor, cap=cap, jitter=jitter).delay(attempt, RNG)
    assert plain <= cap
    assert plain * (1 - jitter) * 0.999999 <= varied <= plain * (1 + jitter) * 1.000001


@given(attempt=attempts, rungs=st.lists(delays, min_size=1, max_size=8), jitter=st.floats(0, 1))
def test_a_ladder_with_jitter_stays_within_its_share_of_the_rung(attempt, rungs, jitter):
    rung = rungs[min(attempt, len(rungs)) - 1]
    delay = Retry(*rungs, jitter=jitter).delay(attempt, RNG)
    assert rung * (1 - jitter) * 0.999999 <= delay <= rung * (1 + jitter) * 1.000001


@given(st.lists(delays, max_size=5), delays, st.floats(1, 100), delays, st.floats(0, 1))
def test_a_policy_comes_back_from_json_as_it_was(rungs, base, factor, cap, jitter):
    policy = (
        Retry(*rungs, jitter=jitter)
        if rungs
        else Retry.exponential(base, factor=factor, cap=cap, jitter=jitter)
    )
    assert Retry.from_json(policy.to_json()) == policy


@pytest.mark.parametrize(
    "make",
    [
        Retry,
        lambda: Retry("-1s"),
        lambda: Retry("soon"),
        lambda: Retry("1s", jitter=1.5),
        lambda: Retry("1s", jitter=-0.1),
        lambda: Retry.exponential(factor=0.5),
        lambda: Retry.exponential("1s", cap="forever"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(make):
    with pytest.raises(ConfigurationError):
        make()
