"""Histograms of times: they can be added up, and percentiles read from the sum.

Eight buckets double a time; posthouse.bucket puts times into them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_SHORTEST = 0.0001
_PER_DOUBLING = 8
PRECISION = 2 ** (0.5 / _PER_DOUBLING) - 1
"""How far from the truth a percentile may be: 4.4 %."""


class Histogram:
    """How many times fell into each bucket."""

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
        """The time in seconds that this share of them did not exceed; None if there are none."""
        left = share * len(self)
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return middle(bucket)
        return None


def middle(bucket: int) -> float:
    """The time, in seconds, that is equally far from both ends of a bucket, as a factor."""
    return _SHORTEST * 2 ** ((bucket - 0.5) / _PER_DOUBLING) if bucket > 0 else _SHORTEST
