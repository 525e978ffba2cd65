"""Histograms of times: percentiles as a brute-force computation finds them, also of sums."""

import math

from hypothesis import given
from hypothesis import strategies as st

from posthouse.insights.stats import PRECISION, Histogram

TIMES = st.lists(st.floats(0.0002, 100_000), min_size=1, max_size=200)
SHARES = st.sampled_from([0.01, 0.5, 0.9, 0.95, 0.99, 1.0])


def bucket(seconds):
    return max(0, math.ceil(8 * math.log2(seconds * 10_000)))


def histogram(times):
    return Histogram(map(bucket, times), [1] * len(times))


def brute(times, share):
    return sorted(times)[max(0, math.ceil(share * len(times)) - 1)]


@given(TIMES, SHARES)
def test_a_percentile_is_off_by_its_precision_at_most(times, share):
    found = histogram(times).quantile(share)
    assert abs(found / brute(times, share) - 1) <= PRECISION + 1e-6


@given(TIMES, TIMES, SHARES)
def test_the_percentile_of_a_sum_is_that_of_all_times_together(some, others, share):
    whole = Histogram.sum([histogram(some), histogram(others)])
    assert len(whole) == len(some) + len(others)
    assert whole.quantile(share) == histogram(some + others).quantile(share)


def test_without_times_there_is_no_percentile():
    assert Histogram().quantile(0.5) is None
