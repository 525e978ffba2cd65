"""Histograms of durations. They can be added, and percentiles read from the sum.

There are eight buckets per doubling; posthouse.bucket assigns durations to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_SHORTEST = 0.0001
_PER_DOUBLING = 8
PRECISION = 2 ** (0.5 / _PER_DOUBLING) - 1
"""Maximum relative error of a percentile: 4.4 %."""


class Histogram:
    """The number of durations in each bucket."""

    __slots__ = ("_counts",)

    def __init__(self, buckets: Iterable[int] = (), counts: Iterable[int] = ()) -> None:
        self._counts: Counter[int] = Counter()
        for bucket, count in zip(buckets, counts, strict=True):
            self._counts[bucket] += count

    @classmethod
    def sum(cls, parts: Iterable[Histogram]) -> Histogram:
        whole = cls()
        for part in parts:
            whole.add(part)
        return whole

    def add(self, other: Histogram) -> None:
        self._counts.update(other._counts)

    def __len__(self) -> int:
        return self._counts.total()

    def quantile(self, share: float) -> float | None:
        """Return the duration in seconds that this share of the durations does not exceed; None if empty."""
        left = share * len(self)
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return middle(bucket)
        return None


def middle(bucket: int) -> float:
    """Return the geometric middle of a bucket in seconds."""
    return _SHORTEST * 2 ** ((bucket - 0.5) / _PER_DOUBLING) if bucket > 0 else _SHORTEST
